// Implements the CUDA kernel of adamw. Part of libingot_cuda.so, which registers it when it is loaded.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/cuda/adamw_launch.h"
#include "kernels/torch/adamw.h"
#include "kernels/torch/typed.h"

namespace ingot::kernels {
namespace {

void CheckOperand(const char* name, const at::Tensor& t, const at::Tensor& master, at::ScalarType type, int64_t count) {
  TORCH_CHECK(t.scalar_type() == type && t.numel() == count && t.is_contiguous() && t.device() == master.device(),
              "adamw: ", name, " must be dense, ", type, " on ", master.device(), " with ", count, " numbers, got ",
              t.scalar_type(), " ", t.sizes(), " on ", t.device());
}

template <typename S>
void Run(const at::Tensor& master, const at::Tensor& exp_avg, const at::Tensor& exp_avg_sq, const at::Tensor& gradient,
         const AdamWRounding& rounding, at::ArrayRef<double> n, bool weights, bool moments) {
  cuda::AdamWArgs<S> args{};
  args.count = master.numel();
  args.master = Write<S>(master);
  args.exp_avg = Write<S>(exp_avg);
  args.exp_avg_sq = Write<S>(exp_avg_sq);
  args.gradient = Read<S>(gradient);
  args.parameter = Write<BFloat16>(rounding.parameter);
  args.changes = Write<uint32_t>(rounding.changes);
  const auto of = [](double x) { return static_cast<S>(x); };
  args.terms = {of(n[0]), of(1 - n[0]), of(n[1]), of(1 - n[1]), of(n[3]), of(n[2]), of(n[4]), of(n[5])};
  args.weights = weights;
  args.moments = moments;
  C10_CUDA_CHECK(cuda::LaunchAdamW(args, c10::cuda::getCurrentCUDAStream()));
}

void AdamWOnCuda(const at::Tensor& master, const at::Tensor& exp_avg, const at::Tensor& exp_avg_sq,
                 const std::optional<at::Tensor>& gradient_in, const std::optional<at::Tensor>& parameter,
                 const std::optional<at::Tensor>& changes, at::ArrayRef<double> numbers, bool weights, bool moments) {
  const at::ScalarType type = master.scalar_type();
  const int64_t count = master.numel();
  TORCH_CHECK(numbers.size() == 6 && (changes.has_value() || !parameter.has_value()),
              "adamw: takes six numbers, and marks with a parameter");
  const at::Tensor gradient = gradient_in.has_value() ? gradient_in->contiguous() : at::Tensor();
  CheckOperand("the master", master, master, type, count);
  CheckOperand("a moment", exp_avg, master, type, count);
  CheckOperand("a moment", exp_avg_sq, master, type, count);
  if (gradient.defined()) CheckOperand("the gradient", gradient, master, type, count);
  AdamWRounding rounding;
  if (parameter.has_value()) {
    rounding.parameter = *parameter;
    CheckOperand("the parameter", *parameter, master, at::kBFloat16, count);
  }
  if (changes.has_value()) {
    rounding.changes = *changes;
    CheckOperand("the marks", *changes, master, at::kLong, (count + 63) / 64);
  }
  const c10::cuda::CUDAGuard guard(master.device());
  if (type == at::kDouble)
    return Run<double>(master, exp_avg, exp_avg_sq, gradient, rounding, numbers, weights, moments);
  TORCH_CHECK(type == at::kFloat, "adamw: the state must be fp32 or fp64, got ", type);
  Run<float>(master, exp_avg, exp_avg_sq, gradient, rounding, numbers, weights, moments);
}

TORCH_LIBRARY_IMPL(ingot, CUDA, m) { m.impl("adamw", AdamWOnCuda); }

}  // namespace
}  // namespace ingot::kernels
