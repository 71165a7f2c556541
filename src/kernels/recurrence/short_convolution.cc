#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "kernels/recurrence/gated_delta.h"

namespace ingot::kernels {
namespace {

template <typename T>
T Widened(T x) {
  return x;
}
float Widened(BFloat16 x) { return ToFloat(x); }

// An input that a row's convolution sees, by age: the row's own, its parent's, and so on. It is a row in the call, a
// position in the past of a given state, or nothing (zeros).
struct Source {
  int64_t row = -1;   // -1 = not a row in the call
  int64_t slot = -1;  // index into the past; -1 = zeros
  int64_t place = 0;  // in the slot
};

class Ancestors {
 public:
  Ancestors(const DeltaShape& shape, const RowPlan& plan) : plan_(plan), sources_(static_cast<size_t>(shape.kernel)) {}

  const std::vector<Source>& Of(int64_t row) {
    const auto kernel = static_cast<int64_t>(sources_.size());
    std::fill(sources_.begin(), sources_.end(), Source{});
    for (int64_t age = 0; age < kernel; ++age) {
      sources_[static_cast<size_t>(age)].row = row;
      const int32_t parent = plan_.parents[static_cast<size_t>(row)];
      if (parent == kNoParent) break;
      if (parent >= 0) {
        row = parent;
        continue;
      }
      for (int64_t older = age + 1; older < kernel; ++older) {
        sources_[static_cast<size_t>(older)] = {-1, ~parent, kernel - 1 - (older - age)};
      }
      break;
    }
    return sources_;
  }

 private:
  const RowPlan& plan_;
  std::vector<Source> sources_;
};

// [channels, kernel] -> [kernel, channels] by age.
template <typename T>
std::vector<Accumulator<T>> ByAge(const DeltaShape& shape, const T* weight) {
  std::vector<Accumulator<T>> turned(static_cast<size_t>(shape.channels() * shape.kernel));
  for (int64_t c = 0; c < shape.channels(); ++c) {
    for (int64_t age = 0; age < shape.kernel; ++age) {
      turned[static_cast<size_t>(age * shape.channels() + c)] =
          Widened(weight[c * shape.kernel + shape.kernel - 1 - age]);
    }
  }
  return turned;
}

template <typename T>
const T* InputOf(const DeltaShape& shape, const ConvolveArgs<T>& args, const Source& source) {
  if (source.row >= 0) return args.x + source.row * shape.channels();
  return source.slot < 0 ? nullptr : args.past + source.slot * shape.past() + source.place * shape.channels();
}

// Computes the sum before the activation, starting with the oldest row.
template <typename T>
void Sum(const DeltaShape& shape, const ConvolveArgs<T>& args, const std::vector<Accumulator<T>>& weight,
         const std::vector<Source>& sources, int64_t begin, int64_t end, Accumulator<T>* sum) {
  std::fill(sum + begin, sum + end, Accumulator<T>(0));
  for (int64_t age = shape.kernel; age-- > 0;) {
    const T* x = InputOf(shape, args, sources[static_cast<size_t>(age)]);
    if (x == nullptr) continue;
    const Accumulator<T>* w = weight.data() + age * shape.channels();
    for (int64_t c = begin; c < end; ++c) sum[c] += w[c] * Widened(x[c]);
  }
}

template <typename T>
void KeepPast(const DeltaShape& shape, const RowPlan& plan, const ConvolveArgs<T>& args, T* kept_past) {
  // Reads all rows first, because another kept row may read a slot that is written.
  std::vector<T> all(args.kept.size() * static_cast<size_t>(shape.past()));
  Ancestors ancestors(shape, plan);
  for (size_t i = 0; i < args.kept.size(); ++i) {
    const std::vector<Source>& sources = ancestors.Of(args.kept[i].row);
    for (int64_t place = 0; place < shape.kernel - 1; ++place) {
      const T* x = InputOf(shape, args, sources[static_cast<size_t>(shape.kernel - 2 - place)]);
      T* to = all.data() + static_cast<int64_t>(i) * shape.past() + place * shape.channels();
      if (x != nullptr) std::copy_n(x, shape.channels(), to);
    }
  }
  for (size_t i = 0; i < args.kept.size(); ++i) {
    std::copy_n(all.data() + static_cast<int64_t>(i) * shape.past(), shape.past(),
                kept_past + args.kept[i].slot * shape.past());
  }
}

}  // namespace

template <typename T>
void Convolve(const DeltaShape& shape, const RowPlan& plan, const ConvolveArgs<T>& args, Accumulator<T>* u,
              T* kept_past, const ParallelFor& parallel) {
  const auto weight = ByAge(shape, args.weight);
  parallel(plan.rows(), [&](int64_t begin, int64_t end) {
    Ancestors ancestors(shape, plan);
    for (int64_t row = begin; row < end; ++row) {
      Accumulator<T>* own = u + row * shape.channels();
      Sum(shape, args, weight, ancestors.Of(row), 0, shape.channels(), own);
      for (int64_t c = 0; c < shape.channels(); ++c) own[c] = own[c] / (1 + std::exp(-own[c]));
    }
  });
  if (shape.kernel > 1) KeepPast(shape, plan, args, kept_past);
}

template <typename T>
void ConvolveBackward(const DeltaShape& shape, const RowPlan& plan, const ConvolveArgs<T>& args,
                      const Accumulator<T>* grad_u, const Accumulator<T>* by_past, Accumulator<T>* grad_x,
                      Accumulator<T>* grad_weight, Accumulator<T>* grad_past, const ParallelFor& parallel) {
  using Acc = Accumulator<T>;
  const int64_t channels = shape.channels();
  const auto weight = ByAge(shape, args.weight);
  std::vector<Acc> by_weight(weight.size());
  const auto target = [&](const Source& source) -> Acc* {
    if (source.row >= 0) return grad_x + source.row * channels;
    if (source.slot < 0 || grad_past == nullptr) return nullptr;
    return grad_past + source.slot * shape.past() + source.place * channels;
  };
  parallel(channels, [&](int64_t begin, int64_t end) {
    Ancestors ancestors(shape, plan);
    std::vector<Acc> sum(static_cast<size_t>(channels));
    for (int64_t row = 0; row < plan.rows(); ++row)
      std::fill(grad_x + row * channels + begin, grad_x + row * channels + end, Acc(0));
    for (int64_t row = 0; row < plan.rows(); ++row) {
      const std::vector<Source>& sources = ancestors.Of(row);
      Sum(shape, args, weight, sources, begin, end, sum.data());
      for (int64_t c = begin; c < end; ++c) {
        const Acc s = 1 / (1 + std::exp(-sum[static_cast<size_t>(c)]));
        sum[static_cast<size_t>(c)] = grad_u[row * channels + c] * s * (1 + sum[static_cast<size_t>(c)] * (1 - s));
      }
      for (int64_t age = 0; age < shape.kernel; ++age) {
        const Source& source = sources[static_cast<size_t>(age)];
        const T* x = InputOf(shape, args, source);
        if (x == nullptr) continue;
        const Acc* w = weight.data() + age * channels;
        Acc *by_w = by_weight.data() + age * channels, *by_x = target(source);
        for (int64_t c = begin; c < end; ++c) by_w[c] += sum[static_cast<size_t>(c)] * Widened(x[c]);
        if (by_x == nullptr) continue;
        for (int64_t c = begin; c < end; ++c) by_x[c] += sum[static_cast<size_t>(c)] * w[c];
      }
    }
    for (const KeptState& kept : by_past == nullptr ? std::span<const KeptState>() : args.kept) {
      const std::vector<Source>& sources = ancestors.Of(kept.row);
      for (int64_t place = 0; place < shape.kernel - 1; ++place) {
        Acc* by_x = target(sources[static_cast<size_t>(shape.kernel - 2 - place)]);
        const Acc* by_kept = by_past + kept.slot * shape.past() + place * channels;
        if (by_x == nullptr) continue;
        for (int64_t c = begin; c < end; ++c) by_x[c] += by_kept[c];
      }
    }
    for (int64_t c = begin; c < end; ++c) {
      for (int64_t age = 0; age < shape.kernel; ++age) {
        grad_weight[c * shape.kernel + shape.kernel - 1 - age] = by_weight[static_cast<size_t>(age * channels + c)];
      }
    }
  });
}

#define INGOT_INSTANTIATE(T)                                                                                          \
  template void Convolve<T>(const DeltaShape&, const RowPlan&, const ConvolveArgs<T>&, Accumulator<T>*, T*,           \
                            const ParallelFor&);                                                                      \
  template void ConvolveBackward<T>(const DeltaShape&, const RowPlan&, const ConvolveArgs<T>&, const Accumulator<T>*, \
                                    const Accumulator<T>*, Accumulator<T>*, Accumulator<T>*, Accumulator<T>*,         \
                                    const ParallelFor&);
INGOT_INSTANTIATE(BFloat16)
INGOT_INSTANTIATE(float)
INGOT_INSTANTIATE(double)

}  // namespace ingot::kernels
