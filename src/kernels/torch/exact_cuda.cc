// Implements the CUDA kernel of exact_linear. Part of libingot_cuda.so, which registers them when it is loaded.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/cuda/product_launch.h"
#include "kernels/torch/exact.h"
#include "kernels/torch/typed.h"

namespace ingot::kernels {
namespace {

// Returns the matrix, dense and 16-byte aligned. A copy has the same numbers, so the results do not depend on it.
at::Tensor Operand(const at::Tensor& t) {
  const at::Tensor dense = t.contiguous();
  return reinterpret_cast<uintptr_t>(dense.const_data_ptr()) % 16 == 0 ? dense : dense.clone();
}

at::Tensor ExactLinearOnCuda(const at::Tensor& x_in, const at::Tensor& weight_in,
                             const std::optional<at::Tensor>& bias_in, bool wide) {
  TORCH_CHECK(x_in.dim() == 2 && weight_in.dim() == 2 && x_in.size(1) == weight_in.size(1) &&
                  weight_in.scalar_type() == x_in.scalar_type() && weight_in.device() == x_in.device(),
              "exact_linear: x ", x_in.scalar_type(), " ", x_in.sizes(), " on ", x_in.device(),
              " does not match the weight ", weight_in.scalar_type(), " ", weight_in.sizes(), " on ",
              weight_in.device());
  TORCH_CHECK(
      !bias_in.has_value() || (bias_in->dim() == 1 && bias_in->size(0) == weight_in.size(0) &&
                               bias_in->scalar_type() == x_in.scalar_type() && bias_in->device() == x_in.device()),
      "exact_linear: the bias must be ", x_in.scalar_type(), " [", weight_in.size(0), "] on ", x_in.device());
  const c10::cuda::CUDAGuard guard(x_in.device());
  const at::Tensor x = Operand(x_in), weight = Operand(weight_in);
  const at::Tensor bias = bias_in.has_value() ? bias_in->contiguous() : at::Tensor();
  const at::ScalarType type = wide ? AccumulatorType(x) : x.scalar_type();
  const at::Tensor y = at::empty({x.size(0), weight.size(0)}, x.options().dtype(type));
  ByType(x, [&](auto zero) {
    using T = decltype(zero);
    cuda::ProductArgs<T> args{Read<T>(x), Read<T>(weight), Read<T>(bias), nullptr,
                              nullptr,    x.size(0),       x.size(1),     weight.size(0)};
    if (type == x.scalar_type()) {
      args.y = Write<T>(y);
    } else {
      args.wide = Write<Accumulator<T>>(y);
    }
    C10_CUDA_CHECK(cuda::LaunchProduct(args, c10::cuda::getCurrentCUDAStream()));
  });
  return y;
}

TORCH_LIBRARY_IMPL(ingot, CUDA, m) { m.impl("exact_linear", ExactLinearOnCuda); }

}  // namespace
}  // namespace ingot::kernels
