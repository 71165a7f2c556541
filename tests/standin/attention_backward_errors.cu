// Computes the gradients of causal attention in bf16 with CUTLASS's fused kernel (example 41 of the package
// nvidia-cutlass) and with Ingot's, from the same outputs and log-sum-exps, and compares both with fp64. Prints a line per
// gradient; exit code 1 if an error of Ingot's (root mean square) is larger by more than a hundredth.
// attention_errors_test.py compiles it from where the package is installed.
#include <cstdio>
#include <random>

#include "kernel_backward.h"
#include "kernels/cuda/attention_launch_mma.h"
#include "standin/attention_errors.h"

namespace {

using ingot::kernels::BFloat16;
using ingot::standin::Compare;
using ingot::standin::Error;
using ingot::standin::FromDevice;
using ingot::standin::OnDevice;
namespace kernels = ingot::kernels;

constexpr int kRows = 256, kHeads = 2;

// Both kernels add the same rounded terms, in another order.
constexpr double kAllowed = 1.01;

struct Problem {
  int width;
  std::vector<BFloat16> q, k, v, grad, out;  // [kRows, kHeads, width]
  std::vector<float> lse, delta;             // [kRows, kHeads]
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(width)); }
};

// Gradients of q, k, and v.
struct Gradients {
  std::vector<double> of[3];
};

double At(const std::vector<BFloat16>& t, int width, int row, int head, int d) {
  return kernels::ToFloat(t[(row * kHeads + head) * width + d]);
}

double Dot(const std::vector<BFloat16>& a, int i, const std::vector<BFloat16>& b, int j, int head, int width) {
  double sum = 0;
  for (int d = 0; d < width; ++d) sum += At(a, width, i, head, d) * At(b, width, j, head, d);
  return sum;
}

// Fills the row's output, log-sum-exp, and delta, and adds its gradients in fp64.
void AddRow(Problem& p, Gradients& exact, int row, int head) {
  std::vector<double> weights;
  double sum = 0, delta = 0;
  for (int key = 0; key <= row; ++key) {
    sum += weights.emplace_back(std::exp(Dot(p.q, row, p.k, key, head, p.width) * double{p.scale()}));
  }
  const int entry = row * kHeads + head;
  for (int d = 0; d < p.width; ++d) {
    double out = 0;
    for (int key = 0; key <= row; ++key) out += weights[key] / sum * At(p.v, p.width, key, head, d);
    p.out[entry * p.width + d] = kernels::ToBFloat16(static_cast<float>(out));
    delta += out * At(p.grad, p.width, row, head, d);
  }
  p.lse[entry] = static_cast<float>(std::log(sum));
  p.delta[entry] = static_cast<float>(Dot(p.out, row, p.grad, row, head, p.width));
  for (int key = 0; key <= row; ++key) {
    const double w = weights[key] / sum;
    const double ds = double{p.scale()} * w * (Dot(p.grad, row, p.v, key, head, p.width) - delta);
    for (int d = 0; d < p.width; ++d) {
      const int at = (key * kHeads + head) * p.width + d;
      exact.of[0][entry * p.width + d] += ds * At(p.k, p.width, key, head, d);
      exact.of[1][at] += ds * At(p.q, p.width, row, head, d);
      exact.of[2][at] += w * At(p.grad, p.width, row, head, d);
    }
  }
}

Problem Make(int width, Gradients& exact) {
  std::mt19937_64 rng(width);
  std::normal_distribution<float> normal;
  Problem p{width, {}, {}, {}, {}, {}, {}, {}};
  const size_t count = kRows * kHeads * width;
  for (auto* t : {&p.q, &p.k, &p.v, &p.grad}) {
    for (size_t i = 0; i < count; ++i) t->push_back(kernels::ToBFloat16(normal(rng)));
  }
  p.out.resize(count);
  p.lse.resize(kRows * kHeads);
  p.delta.resize(kRows * kHeads);
  for (auto& gradient : exact.of) gradient.assign(count, 0);
  for (int row = 0; row < kRows; ++row) {
    for (int head = 0; head < kHeads; ++head) AddRow(p, exact, row, head);
  }
  return p;
}

// [kRows, kHeads] as [kHeads, kRows].
std::vector<float> ByHead(const std::vector<float>& x) {
  std::vector<float> result;
  for (int head = 0; head < kHeads; ++head) {
    for (int row = 0; row < kRows; ++row) result.push_back(x[row * kHeads + head]);
  }
  return result;
}

Gradients Published(const Problem& problem) {
  using Element = cutlass::bfloat16_t;
  using Kernel = AttentionBackwardKernel<cutlass::arch::Sm80, Element, true, false, true, 128, 128, 128, false, true>;
  const auto device = [](const std::vector<BFloat16>& t) { return reinterpret_cast<Element*>(OnDevice(t)); };
  typename Kernel::Params p;
  p.query_ptr = device(problem.q);
  p.key_ptr = device(problem.k);
  p.value_ptr = device(problem.v);
  p.output_ptr = device(problem.out);
  p.grad_output_ptr = device(problem.grad);
  p.logsumexp_ptr = OnDevice(ByHead(problem.lse));
  p.delta_ptr = OnDevice(ByHead(problem.delta));
  Element* const gradients[] = {device(problem.q), device(problem.k), device(problem.v)};
  p.grad_query_ptr = gradients[0];
  p.grad_key_ptr = gradients[1];
  p.grad_value_ptr = gradients[2];
  p.scale = problem.scale();
  p.head_dim = p.head_dim_value = problem.width;
  p.num_queries = p.num_keys = kRows;
  p.num_heads = kHeads;
  p.num_batches = 1;
  p.custom_mask_type = Kernel::CausalFromTopLeft;
  const int row = kHeads * problem.width;
  p.q_strideM = p.k_strideM = p.v_strideM = p.gO_strideM = row;
  p.q_strideH = p.k_strideH = p.v_strideH = problem.width;
  p.o_strideH = p.gO_strideH = p.gQ_strideH = p.gK_strideH = p.gV_strideH = problem.width;
  p.q_strideB = p.k_strideB = p.v_strideB = p.o_strideB = p.gO_strideB = kRows * row;
  p.gQ_strideB = p.gK_strideB = p.gV_strideB = kRows * row;
  p.lse_strideH = p.delta_strideH = kRows;
  p.lse_strideB = p.delta_strideB = kHeads * kRows;
  if (p.workspace_size() > 0) cudaMalloc(&p.workspace, p.workspace_size());
  if (!Kernel::check_supported(p)) return {};
  constexpr auto kernel = attention_kernel_backward_batched_impl<Kernel>;
  constexpr int bytes = sizeof(typename Kernel::SharedStorage);
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  kernel<<<p.getBlocksGrid(), p.getThreadsGrid(), bytes>>>(p);
  Gradients result;
  for (int i = 0; i < 3; ++i) {
    result.of[i] = FromDevice(reinterpret_cast<const BFloat16*>(gradients[i]), problem.q.size());
  }
  return result;
}

// fp32 sums, rounded to bf16 as the published kernel's gradients are.
std::vector<double> Rounded(const float* device, size_t count) {
  std::vector<float> values(count);
  cudaMemcpy(values.data(), device, count * sizeof(float), cudaMemcpyDeviceToHost);
  std::vector<double> rounded;
  for (const float x : values) rounded.push_back(kernels::ToFloat(kernels::ToBFloat16(x)));
  return rounded;
}

Gradients Ours(const Problem& p) {
  kernels::AttentionSequence sequence;
  sequence.q_count = sequence.key_count = kRows;
  const kernels::cuda::AttentionPlan plan({kHeads, kHeads, p.width, p.scale()}, {&sequence, 1}, 0, true,
                                          kernels::cuda::kTileRows, kernels::cuda::kMostKeyBlocks);
  std::vector<std::byte> packed(plan.packed_bytes());
  plan.Pack(packed.data());
  const int64_t row = kHeads * p.width;
  BFloat16* const grad_q = OnDevice(p.q);
  float *const sum_k = OnDevice(std::vector<float>(p.k.size())), *const sum_v =
                                                                     OnDevice(std::vector<float>(p.k.size()));
  const kernels::cuda::BackwardArgs<BFloat16> args{{kHeads, kHeads, p.width, 1, 0, 0, row, row, row, p.scale()},
                                                   plan.View(OnDevice(packed)),
                                                   OnDevice(p.q),
                                                   OnDevice(p.k),
                                                   OnDevice(p.v),
                                                   OnDevice(p.out),
                                                   OnDevice(p.grad),
                                                   nullptr,
                                                   OnDevice(p.lse),
                                                   grad_q,
                                                   sum_k,
                                                   sum_v,
                                                   nullptr,
                                                   OnDevice(p.delta),
                                                   nullptr,
                                                   kRows};
  const auto blocks = static_cast<int64_t>(plan.blocks().size()), keys = static_cast<int64_t>(plan.key_blocks().size());
  if (LaunchBackwardMma(args, {blocks, keys, 0}, nullptr) != cudaSuccess) return {};
  return {{FromDevice(grad_q, p.q.size()), Rounded(sum_k, p.k.size()), Rounded(sum_v, p.k.size())}};
}

bool Check(int width) {
  Gradients exact;
  const Problem problem = Make(width, exact);
  const Gradients published = Published(problem), ours = Ours(problem);
  bool good = true;
  for (int i = 0; i < 3; ++i) {
    const Error theirs = Compare(published.of[i], exact.of[i]), own = Compare(ours.of[i], exact.of[i]);
    std::printf("width %d, gradient of %c: published %.4e (largest %.3e), Ingot's %.4e (largest %.3e)\n", width,
                "qkv"[i], theirs.mean_square, theirs.largest, own.mean_square, own.largest);
    good = good && std::isfinite(theirs.mean_square) && own.mean_square <= kAllowed * theirs.mean_square;
  }
  return good;
}

}  // namespace

int main() {
  const bool narrow = Check(64), wide = Check(128);
  return narrow && wide && cudaGetLastError() == cudaSuccess ? 0 : 1;
}
