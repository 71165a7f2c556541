// Implements the CUDA kernels of softmax_ops.h. Part of libingot_cuda.so, which registers them when it is loaded.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <type_traits>

#include "kernels/cuda/policy_launch.h"
#include "kernels/torch/operands.h"
#include "kernels/torch/softmax_ops.h"
#include "kernels/torch/typed.h"

namespace ingot::kernels {
namespace {

// The rows that all operators take.
struct PolicyTensors {
  const char* name;
  const at::Tensor &logits, &temperature, &top, &log_sum;

  void Check() const {
    TORCH_CHECK(logits.dim() == 2 && (logits.scalar_type() == at::kFloat || logits.scalar_type() == at::kDouble), name,
                ": logits must be fp32 or fp64 [rows, vocab], got ", logits.scalar_type(), " ", logits.sizes());
    CheckOne("logits", logits, logits.sizes());
    for (const at::Tensor* t : {&temperature, &top, &log_sum}) CheckOne("values of rows", *t, {logits.size(0)});
  }
  void CheckOne(const char* what, const at::Tensor& t, at::IntArrayRef sizes) const {
    CheckType(what, t, sizes, logits.scalar_type());
  }
  void CheckType(const char* what, const at::Tensor& t, at::IntArrayRef sizes, at::ScalarType type) const {
    CheckDense(name, what, t, logits, sizes, type);
  }

  template <typename T>
  cuda::PolicyValues<T> Values() const {
    return {Read<T>(logits), logits.size(0), logits.size(1), Read<T>(temperature), Write<T>(top), Write<T>(log_sum)};
  }
  template <typename F>
  void ByLogits(const F& f) const {
    const c10::cuda::CUDAGuard guard(logits.device());
    if (logits.scalar_type() == at::kDouble) return f(double{});
    f(float{});
  }
};

void PolicySumsOnCuda(const at::Tensor& logits, const at::Tensor& temperature, const at::Tensor& top,
                      const at::Tensor& log_sum, const at::Tensor& entropy) {
  const PolicyTensors tensors{"policy_sums", logits, temperature, top, log_sum};
  tensors.Check();
  tensors.CheckOne("entropies", entropy, {logits.size(0)});
  tensors.ByLogits([&](auto zero) {
    using T = decltype(zero);
    cuda::PolicySumArgs<T> args{tensors.Values<T>(), Write<T>(entropy), nullptr};
    const at::Tensor parts = at::empty({args.policy.rows * args.policy.parts(), 3}, logits.options());
    args.parts = Write<cuda::PolicySums<T>>(parts);
    C10_CUDA_CHECK(cuda::LaunchPolicySums(args, c10::cuda::getCurrentCUDAStream()));
  });
}

void PolicyLogProbsOnCuda(const at::Tensor& logits, const at::Tensor& temperature, const at::Tensor& top,
                          const at::Tensor& log_sum, const std::optional<at::Tensor>& rows, const at::Tensor& out) {
  const PolicyTensors tensors{"policy_log_probs", logits, temperature, top, log_sum};
  tensors.Check();
  const int64_t count = rows.has_value() ? rows->numel() : logits.size(0);
  if (rows.has_value()) tensors.CheckType("rows", *rows, {count}, at::kLong);
  tensors.CheckOne("the result", out, {count, logits.size(1)});
  tensors.ByLogits([&](auto zero) {
    using T = decltype(zero);
    const cuda::LogPolicyArgs<T> args{tensors.Values<T>(), Read<int64_t>(rows.value_or(at::Tensor())), count,
                                      Write<T>(out)};
    C10_CUDA_CHECK(cuda::LaunchLogPolicy(args, c10::cuda::getCurrentCUDAStream()));
  });
}

void PolicyTokenLogProbsOnCuda(const at::Tensor& logits, const at::Tensor& temperature, const at::Tensor& top,
                               const at::Tensor& log_sum, const at::Tensor& rows, const at::Tensor& tokens,
                               const at::Tensor& out) {
  const PolicyTensors tensors{"policy_token_log_probs", logits, temperature, top, log_sum};
  tensors.Check();
  const int64_t count = rows.numel();
  tensors.CheckType("rows", rows, {count}, at::kLong);
  tensors.CheckType("tokens", tokens, {count}, at::kLong);
  tensors.CheckOne("the result", out, {count});
  tensors.ByLogits([&](auto zero) {
    using T = decltype(zero);
    const cuda::TokenPolicyArgs<T> args{tensors.Values<T>(), count, Read<int64_t>(rows), Read<int64_t>(tokens),
                                        Write<T>(out)};
    C10_CUDA_CHECK(cuda::LaunchTokenPolicy(args, c10::cuda::getCurrentCUDAStream()));
  });
}

void PolicyBackwardOnCuda(const at::Tensor& logits, const at::Tensor& temperature, const at::Tensor& top,
                          const at::Tensor& log_sum, const at::Tensor& of_p, const at::Tensor& of_plogp,
                          const at::Tensor& first, const at::Tensor& token, const at::Tensor& addend, double soft_cap,
                          const at::Tensor& out) {
  const PolicyTensors tensors{"policy_backward", logits, temperature, top, log_sum};
  tensors.Check();
  const int64_t rows = logits.size(0);
  tensors.CheckOne("factors of p", of_p, {rows});
  tensors.CheckOne("factors of p log p", of_plogp, {rows});
  tensors.CheckType("places of the first tokens", first, {rows + 1}, at::kLong);
  tensors.CheckType("tokens", token, {token.numel()}, at::kLong);
  tensors.CheckOne("addends", addend, {token.numel()});
  const bool narrow = out.scalar_type() == at::kBFloat16 && logits.scalar_type() == at::kFloat;
  tensors.CheckType("the result", out, logits.sizes(), narrow ? at::kBFloat16 : logits.scalar_type());
  tensors.ByLogits([&](auto zero) {
    using T = decltype(zero);
    const auto launch = [&](auto narrowest) {
      using Out = decltype(narrowest);
      const cuda::PolicyGradientArgs<T, Out> args{tensors.Values<T>(),
                                                  Read<T>(of_p),
                                                  Read<T>(of_plogp),
                                                  Read<int64_t>(first),
                                                  Read<int64_t>(token),
                                                  Read<T>(addend),
                                                  soft_cap > 0 ? static_cast<T>(1 / soft_cap) : T(0),
                                                  Write<Out>(out)};
      C10_CUDA_CHECK(cuda::LaunchPolicyGradient(args, c10::cuda::getCurrentCUDAStream()));
    };
    if constexpr (std::is_same_v<T, float>) {
      if (narrow) return launch(BFloat16{});
    }
    launch(T{});
  });
}

TORCH_LIBRARY_IMPL(ingot, CUDA, m) {
  m.impl("policy_sums", PolicySumsOnCuda);
  m.impl("policy_log_probs", PolicyLogProbsOnCuda);
  m.impl("policy_token_log_probs", PolicyTokenLogProbsOnCuda);
  m.impl("policy_backward", PolicyBackwardOnCuda);
}

}  // namespace
}  // namespace ingot::kernels
