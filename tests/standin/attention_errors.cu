// Computes causal attention in bf16 with CUTLASS's fused kernel (example 41 of the package nvidia-cutlass) and with
// Ingot's, on the same inputs, and compares both with fp64. Prints a line per head width; exit code 1 if an error of
// Ingot's output (root mean square) is larger. attention_errors_test.py compiles it from where the package is installed.
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "kernel_forward.h"
#include "kernels/cuda/attention_launch_mma.h"
#include "standin/attention_errors.h"

namespace {

using ingot::kernels::BFloat16;
using ingot::standin::Compare;
using ingot::standin::Error;
using ingot::standin::FromDevice;
using ingot::standin::OnDevice;
namespace kernels = ingot::kernels;

constexpr int kRows = 280, kHeads = 2;

struct Problem {
  int width;
  std::vector<BFloat16> q, k, v;  // [kRows, kHeads, width]
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(width)); }
};

Problem Make(int width) {
  std::mt19937_64 rng(width);
  std::normal_distribution<float> normal;
  Problem p{width, {}, {}, {}};
  for (auto* t : {&p.q, &p.k, &p.v}) {
    for (int i = 0; i < kRows * kHeads * width; ++i) t->push_back(kernels::ToBFloat16(normal(rng)));
  }
  return p;
}

std::vector<double> Exact(const Problem& p) {
  std::vector<double> out(p.q.size());
  const auto at = [&](const std::vector<BFloat16>& t, int row, int head, int d) {
    return double{kernels::ToFloat(t[(row * kHeads + head) * p.width + d])};
  };
  for (int head = 0; head < kHeads; ++head) {
    for (int row = 0; row < kRows; ++row) {
      std::vector<double> weights;
      double sum = 0;
      for (int key = 0; key <= row; ++key) {
        double score = 0;
        for (int d = 0; d < p.width; ++d) score += at(p.q, row, head, d) * at(p.k, key, head, d);
        sum += weights.emplace_back(std::exp(score * double{p.scale()}));
      }
      for (int key = 0; key <= row; ++key) {
        for (int d = 0; d < p.width; ++d) {
          out[(row * kHeads + head) * p.width + d] += weights[key] / sum * at(p.v, key, head, d);
        }
      }
    }
  }
  return out;
}

template <int kQueries, int kKeys, int kWidth>
std::vector<double> Published(const Problem& problem) {
  using Kernel = AttentionKernel<cutlass::bfloat16_t, cutlass::arch::Sm80, true, kQueries, kKeys, kWidth, false, false>;
  static_assert(!Kernel::kNeedsOutputAccumulatorBuffer);
  typename Kernel::Params p;
  p.query_ptr = reinterpret_cast<cutlass::bfloat16_t*>(OnDevice(problem.q));
  p.key_ptr = reinterpret_cast<cutlass::bfloat16_t*>(OnDevice(problem.k));
  p.value_ptr = reinterpret_cast<cutlass::bfloat16_t*>(OnDevice(problem.v));
  p.output_ptr = reinterpret_cast<cutlass::bfloat16_t*>(OnDevice(problem.q));
  p.logsumexp_ptr = nullptr;
  p.output_accum_ptr = nullptr;
  p.scale = problem.scale();
  p.num_heads = kHeads;
  p.num_batches = 1;
  p.head_dim = p.head_dim_value = problem.width;
  p.num_queries = p.num_keys = kRows;
  p.custom_mask_type = Kernel::CausalFromTopLeft;
  p.q_strideH = p.k_strideH = p.v_strideH = problem.width;
  p.q_strideM = p.k_strideM = p.v_strideM = p.o_strideM = kHeads * problem.width;
  p.q_strideB = p.k_strideB = p.v_strideB = kRows * kHeads * problem.width;
  constexpr auto kernel = attention_kernel_batched_impl<Kernel>;
  constexpr int bytes = sizeof(typename Kernel::SharedStorage);
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (!Kernel::check_supported(p)) return {};
  kernel<<<p.getBlocksGrid(), p.getThreadsGrid(), bytes>>>(p);
  return FromDevice(reinterpret_cast<const BFloat16*>(p.output_ptr), problem.q.size());
}

std::vector<double> Ours(const Problem& p) {
  const kernels::AttentionShape shape{kHeads, kHeads, p.width, p.scale()};
  kernels::AttentionSequence sequence;
  sequence.q_count = sequence.key_count = kRows;
  const kernels::cuda::AttentionPlan plan(shape, {&sequence, 1}, 0, false, kernels::cuda::kMmaRows);
  std::vector<std::byte> packed(plan.packed_bytes());
  plan.Pack(packed.data());
  const int64_t row = kHeads * p.width;
  BFloat16* const out = OnDevice(p.q);
  const kernels::cuda::ForwardArgs<BFloat16> args{{kHeads, kHeads, p.width, 1, 0, 0, row, row, row, p.scale()},
                                                  plan.View(OnDevice(packed)),
                                                  OnDevice(p.q),
                                                  OnDevice(p.k),
                                                  OnDevice(p.v),
                                                  nullptr,
                                                  out,
                                                  nullptr};
  if (LaunchForwardMma(args, static_cast<int64_t>(plan.blocks().size()), nullptr) != cudaSuccess) return {};
  return FromDevice(out, p.q.size());
}

bool Check(int width, const std::vector<double>& published, const Problem& problem) {
  const std::vector<double> exact = Exact(problem);
  const Error theirs = Compare(published, exact), ours = Compare(Ours(problem), exact);
  std::printf("width %d: published %.4e (largest %.3e), Ingot's %.4e (largest %.3e)\n", width, theirs.mean_square,
              theirs.largest, ours.mean_square, ours.largest);
  return std::isfinite(theirs.mean_square) && ours.mean_square <= theirs.mean_square;
}

}  // namespace

int main() {
  const Problem narrow = Make(64), wide = Make(128);
  const bool first = Check(64, Published<64, 64, 64>(narrow), narrow);
  const bool second = Check(128, Published<32, 128, 128>(wide), wide);
  return first && second && cudaGetLastError() == cudaSuccess ? 0 : 1;
}
