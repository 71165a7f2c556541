#include "kernels/softmax.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "kernels/share_out.h"
#include "kernels/simd/inner.h"

namespace ingot::kernels {
namespace {

constexpr int64_t kBlock = 4096;  // numbers of a row that stay in the L1 cache

// Calls body(row) for all rows. A thread processes several short rows at a time. A number costs about one exp.
template <typename F>
void ForRows(int64_t rows, int64_t vocab, const ParallelFor& parallel, const F& body) {
  const int64_t at_once = std::max<int64_t>(1, 4 * kBlock / vocab);
  const double flops = 16.0 * static_cast<double>(rows) * static_cast<double>(vocab);
  tiles::ShareOut(parallel, tiles::CeilDiv(rows, at_once), flops, [&] {
    return [&](int64_t item) {
      for (int64_t r = item * at_once; r < std::min(rows, (item + 1) * at_once); ++r) body(r);
    };
  });
}

}  // namespace

template <typename T>
void SoftCapLogits(T* logits, int64_t count, double cap, const ParallelFor& parallel) {
  ForRows(tiles::CeilDiv(count, kBlock), kBlock, parallel, [&](int64_t block) {
    const int64_t begin = block * kBlock;
    inner::Get<T>().soft_cap(logits + begin, static_cast<T>(1 / cap), static_cast<T>(cap),
                             std::min(kBlock, count - begin));
  });
}

template <typename T>
void SumPolicy(const PolicyRows<T>& policy, const ParallelFor& parallel) {
  const inner::Kernels<T>& inner = inner::Get<T>();
  ForRows(policy.rows, policy.vocab, parallel, [&](int64_t r) {
    T sum, weighted;  // of exp(d) and of d exp(d)
    inner.softmax_sums(policy.logits + r * policy.vocab, policy.temperature[r], policy.vocab, &policy.top[r], &sum,
                       &weighted);
    policy.log_sum[r] = std::log(sum);
    policy.entropy[r] = policy.log_sum[r] - weighted / sum;
  });
}

template <typename T>
void LogPolicy(const PolicyRows<T>& policy, T* out, const ParallelFor& parallel) {
  const inner::Kernels<T>& inner = inner::Get<T>();
  ForRows(policy.rows, policy.vocab, parallel, [&](int64_t r) {
    inner.log_softmax(out + r * policy.vocab, policy.logits + r * policy.vocab,
                      {policy.temperature[r], policy.top[r], policy.log_sum[r]}, policy.vocab);
  });
}

template <typename T, typename Out>
void PolicyBackward(const PolicyRows<T>& policy, const PolicyGradient<T>& gradient, Out* out,
                    const ParallelFor& parallel) {
  constexpr bool kNarrow = !std::is_same_v<T, Out>;
  const inner::Kernels<T>& inner = inner::Get<T>();
  const bool capped = policy.soft_cap > 0;  // out may be the logits' memory, which the cap's slope still needs
  const T inverse_cap = capped ? static_cast<T>(1 / policy.soft_cap) : T(0);
  ForRows(policy.rows, policy.vocab, parallel, [&](int64_t r) {
    T scratch[kBlock];
    const inner::PolicyRow<T> row = {policy.temperature[r], policy.top[r], policy.log_sum[r]};
    const T of_plogp = gradient.of_plogp == nullptr ? T(0) : gradient.of_plogp[r];
    for (int64_t begin = 0; begin < policy.vocab; begin += kBlock) {
      const int64_t n = std::min(kBlock, policy.vocab - begin), at = r * policy.vocab + begin;
      T* to = scratch;
      if constexpr (!kNarrow) to = capped ? scratch : out + at;
      inner.policy_backward(to, policy.logits + at, row, gradient.of_p[r], of_plogp, n);
      for (int64_t i = gradient.first[r]; i < gradient.first[r + 1]; ++i) {
        const int64_t place = gradient.token[i] - begin;
        if (place >= 0 && place < n) to[place] += gradient.addend[i];
      }
      for (int64_t i = 0; capped && i < n; ++i) {
        const T t = policy.logits[at + i] * inverse_cap;
        to[i] *= T(1) - t * t;
      }
      if constexpr (kNarrow) {
        inner::Get<Out>().narrow(out + at, scratch, n);
      } else if (capped) {
        std::copy_n(scratch, n, out + at);
      }
    }
  });
}

#define INGOT_INSTANTIATE(T)                                               \
  template void SoftCapLogits<T>(T*, int64_t, double, const ParallelFor&); \
  template void SumPolicy<T>(const PolicyRows<T>&, const ParallelFor&);    \
  template void LogPolicy<T>(const PolicyRows<T>&, T*, const ParallelFor&);
INGOT_INSTANTIATE(float)
INGOT_INSTANTIATE(double)
template void PolicyBackward<float, float>(const PolicyRows<float>&, const PolicyGradient<float>&, float*,
                                           const ParallelFor&);
template void PolicyBackward<double, double>(const PolicyRows<double>&, const PolicyGradient<double>&, double*,
                                             const ParallelFor&);
template void PolicyBackward<float, BFloat16>(const PolicyRows<float>&, const PolicyGradient<float>&, BFloat16*,
                                              const ParallelFor&);

}  // namespace ingot::kernels
