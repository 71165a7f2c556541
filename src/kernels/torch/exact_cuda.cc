// Implements the CUDA kernels of exact_linear and exact_linears. Part of libingot_cuda.so, which registers them when it is loaded.
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

// Checks a layer, and returns its bias, dense or undefined.
at::Tensor CheckLayer(const char* op, const at::Tensor& x, const at::Tensor& weight,
                      const std::optional<at::Tensor>& bias) {
  TORCH_CHECK(x.dim() == 2 && weight.dim() == 2 && x.size(1) == weight.size(1) &&
                  weight.scalar_type() == x.scalar_type() && weight.device() == x.device(),
              op, ": x ", x.scalar_type(), " ", x.sizes(), " on ", x.device(), " does not match the weight ",
              weight.scalar_type(), " ", weight.sizes(), " on ", weight.device());
  TORCH_CHECK(!bias.has_value() || (bias->dim() == 1 && bias->size(0) == weight.size(0) &&
                                    bias->scalar_type() == x.scalar_type() && bias->device() == x.device()),
              op, ": the bias must be ", x.scalar_type(), " [", weight.size(0), "] on ", x.device());
  return bias.has_value() ? bias->contiguous() : at::Tensor();
}

at::Tensor ExactLinearOnCuda(const at::Tensor& x_in, const at::Tensor& weight_in,
                             const std::optional<at::Tensor>& bias_in, bool wide) {
  const at::Tensor bias = CheckLayer("exact_linear", x_in, weight_in, bias_in);
  const c10::cuda::CUDAGuard guard(x_in.device());
  const at::Tensor x = Operand(x_in), weight = Operand(weight_in);
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

std::vector<at::Tensor> ExactLinearsOnCuda(const at::Tensor& x_in, at::TensorList weights_in,
                                           const c10::List<std::optional<at::Tensor>>& biases_in) {
  const size_t count = weights_in.size();
  TORCH_CHECK((count == 2 || count == 3) && biases_in.size() == count, "exact_linears: ", count, " weights and ",
              biases_in.size(), " biases");
  const c10::cuda::CUDAGuard guard(x_in.device());
  std::vector<at::Tensor> weights, biases, ys;
  for (size_t i = 0; i < count; ++i) {
    biases.push_back(CheckLayer("exact_linears", x_in, weights_in[i], biases_in.get(i)));
    TORCH_CHECK(weights_in[i].size(0) > 0, "exact_linears: a weight without rows");
    weights.push_back(Operand(weights_in[i]));
    ys.push_back(at::empty({x_in.size(0), weights_in[i].size(0)}, x_in.options()));
  }
  const at::Tensor x = Operand(x_in);
  ByType(x, [&](auto zero) {
    using T = decltype(zero);
    cuda::ProductArgs<T> args{Read<T>(x), Read<T>(weights[0]), Read<T>(biases[0]), Write<T>(ys[0]),
                              nullptr,    x.size(0),           x.size(1),          weights[0].size(0)};
    for (size_t i = 1; i < count; ++i) {
      args.more[i - 1] = {Read<T>(weights[i]), Read<T>(biases[i]), Write<T>(ys[i]), weights[i].size(0)};
    }
    C10_CUDA_CHECK(cuda::LaunchProduct(args, c10::cuda::getCurrentCUDAStream()));
  });
  return ys;
}

TORCH_LIBRARY_IMPL(ingot, CUDA, m) {
  m.impl("exact_linear", ExactLinearOnCuda);
  m.impl("exact_linears", ExactLinearsOnCuda);
}

}  // namespace
}  // namespace ingot::kernels
