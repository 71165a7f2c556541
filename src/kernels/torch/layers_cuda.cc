// Implements the CUDA kernels of layers_ops.h. Part of libingot_cuda.so, which registers them when it is loaded.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/cuda/layers_launch.h"
#include "kernels/torch/layers_ops.h"
#include "kernels/torch/operands.h"
#include "kernels/torch/typed.h"

namespace ingot::kernels {
namespace {

at::Tensor Or(const MaybeTensor& t) { return t.value_or(at::Tensor()); }

// What an operator's tensors must be: on one device, dense, and of one type, or that of its sums.
struct Operands {
  const char* name;
  const at::Tensor& first;

  void Check(const char* what, const at::Tensor& t, at::IntArrayRef sizes) const {
    CheckType(what, t, sizes, first.scalar_type());
  }
  void CheckSums(const char* what, const at::Tensor& t, at::IntArrayRef sizes) const {
    CheckType(what, t, sizes, AccumulatorType(first));
  }
  void CheckType(const char* what, const at::Tensor& t, at::IntArrayRef sizes, at::ScalarType type) const {
    CheckDense(name, what, t, first, sizes, type);
  }
  // Also returns whether the tensor is there.
  bool Has(const char* what, const MaybeTensor& t, at::IntArrayRef sizes) const {
    if (t.has_value()) Check(what, *t, sizes);
    return t.has_value();
  }
};

void RmsNormOnCuda(const at::Tensor& x, const MaybeTensor& plus, const at::Tensor& weight, double eps,
                   const MaybeTensor& sum, const at::Tensor& y, const MaybeTensor& inverse) {
  TORCH_CHECK(x.dim() == 2 && plus.has_value() == sum.has_value(),
              "rms_norm: x must be [rows, n], with a sum if another tensor is added, got ", x.sizes());
  const int64_t rows = x.size(0), n = x.size(1);
  const Operands operands{"rms_norm", x};
  operands.Check("x", x, {rows, n});
  operands.Check("the weight", weight, {n});
  operands.Check("the result", y, {rows, n});
  operands.Has("what is added", plus, {rows, n});
  operands.Has("the sum", sum, {rows, n});
  if (inverse.has_value()) operands.CheckSums("the factors", *inverse, {rows});
  const c10::cuda::CUDAGuard guard(x.device());
  ByType(x, [&](auto zero) {
    using T = decltype(zero);
    using Acc = Accumulator<T>;
    const cuda::NormArgs<T> args{rows,
                                 n,
                                 Read<T>(x),
                                 Read<T>(Or(plus)),
                                 Write<T>(Or(sum)),
                                 Read<T>(weight),
                                 static_cast<Acc>(eps),
                                 Write<T>(y),
                                 Write<Acc>(Or(inverse))};
    C10_CUDA_CHECK(cuda::LaunchNorm(args, c10::cuda::getCurrentCUDAStream()));
  });
}

void RmsNormBackwardOnCuda(const at::Tensor& grad, const MaybeTensor& by_sum, const at::Tensor& x,
                           const at::Tensor& weight, const at::Tensor& inverse, const at::Tensor& grad_x,
                           const at::Tensor& grad_weight) {
  TORCH_CHECK(x.dim() == 2, "rms_norm_backward: x must be [rows, n], got ", x.sizes());
  const int64_t rows = x.size(0), n = x.size(1);
  const Operands operands{"rms_norm_backward", x};
  operands.Check("x", x, {rows, n});
  operands.Check("the gradient", grad, {rows, n});
  operands.Has("the sum's gradient", by_sum, {rows, n});
  operands.Check("the weight", weight, {n});
  operands.CheckSums("the factors", inverse, {rows});
  operands.Check("the gradient of x", grad_x, {rows, n});
  operands.Check("the weight's gradient", grad_weight, {n});
  const c10::cuda::CUDAGuard guard(x.device());
  ByType(x, [&](auto zero) {
    using T = decltype(zero);
    using Acc = Accumulator<T>;
    cuda::NormGradientArgs<T> args{rows,
                                   n,
                                   Read<T>(grad),
                                   Read<T>(Or(by_sum)),
                                   Read<T>(x),
                                   Read<T>(weight),
                                   Read<Acc>(inverse),
                                   Write<T>(grad_x),
                                   nullptr};
    const at::Tensor parts = at::empty({args.blocks(), n}, inverse.options());
    args.parts = Write<Acc>(parts);
    C10_CUDA_CHECK(cuda::LaunchNormGradient(args, Write<T>(grad_weight), c10::cuda::getCurrentCUDAStream()));
  });
}

// Checks the tables and positions for heads [rows, heads, depth]. Returns whether there is a norm.
bool CheckHeads(const Operands& operands, const MaybeTensor& weight, const at::Tensor& cos, const at::Tensor& sin,
                const at::Tensor& positions) {
  const at::Tensor& x = operands.first;
  TORCH_CHECK(
      x.dim() == 3 && x.size(2) % 2 == 0 && cos.dim() == 2, operands.name,
      ": heads must be [rows, heads, head_dim] with an even head_dim, and tables [positions, head_dim / 2], got ",
      x.sizes(), " and ", cos.sizes());
  operands.Check("x", x, x.sizes());
  operands.Check("cos", cos, {cos.size(0), x.size(2) / 2});
  operands.Check("sin", sin, {cos.size(0), x.size(2) / 2});
  operands.CheckType("positions", positions, {x.size(0)}, at::kLong);
  return operands.Has("the weight", weight, {x.size(2)});
}

void NormRotateOnCuda(const at::Tensor& x, const MaybeTensor& weight, double eps, const at::Tensor& cos,
                      const at::Tensor& sin, const at::Tensor& positions, const at::Tensor& y,
                      const MaybeTensor& inverse) {
  const Operands operands{"norm_rotate", x};
  const bool norm = CheckHeads(operands, weight, cos, sin, positions);
  operands.Check("the result", y, x.sizes());
  if (norm && inverse.has_value()) operands.CheckSums("the factors", *inverse, {x.size(0) * x.size(1)});
  const c10::cuda::CUDAGuard guard(x.device());
  ByType(x, [&](auto zero) {
    using T = decltype(zero);
    using Acc = Accumulator<T>;
    const cuda::HeadArgs<T> args{x.size(0),    x.size(1),           x.size(2),
                                 Read<T>(x),   Read<T>(Or(weight)), static_cast<Acc>(eps),
                                 Read<T>(cos), Read<T>(sin),        Read<int64_t>(positions),
                                 cos.size(0),  Write<T>(y),         norm ? Write<Acc>(Or(inverse)) : nullptr};
    C10_CUDA_CHECK(cuda::LaunchHeads(args, c10::cuda::getCurrentCUDAStream()));
  });
}

void NormRotateBackwardOnCuda(const at::Tensor& grad, const MaybeTensor& x, const MaybeTensor& weight,
                              const MaybeTensor& inverse, const at::Tensor& cos, const at::Tensor& sin,
                              const at::Tensor& positions, const at::Tensor& grad_x, const MaybeTensor& grad_weight) {
  const Operands operands{"norm_rotate_backward", grad};
  const bool norm = CheckHeads(operands, weight, cos, sin, positions);
  const int64_t rows = grad.size(0), heads = grad.size(1), depth = grad.size(2);
  TORCH_CHECK(x.has_value() == norm && inverse.has_value() == norm && grad_weight.has_value() == norm,
              "norm_rotate_backward: x, factors, and a weight's gradient belong to a weight");
  operands.Check("the gradient of x", grad_x, grad.sizes());
  if (norm) {
    operands.Check("x", *x, grad.sizes());
    operands.CheckSums("the factors", *inverse, {rows * heads});
    operands.Check("the weight's gradient", *grad_weight, {depth});
  }
  const c10::cuda::CUDAGuard guard(grad.device());
  ByType(grad, [&](auto zero) {
    using T = decltype(zero);
    using Acc = Accumulator<T>;
    cuda::HeadGradientArgs<T> args{rows,
                                   heads,
                                   depth,
                                   Read<T>(grad),
                                   Read<T>(Or(x)),
                                   Read<T>(Or(weight)),
                                   Read<Acc>(Or(inverse)),
                                   Read<T>(cos),
                                   Read<T>(sin),
                                   Read<int64_t>(positions),
                                   cos.size(0),
                                   Write<T>(grad_x),
                                   nullptr};
    const at::Tensor parts =
        norm ? at::empty({args.blocks(), depth}, grad.options().dtype(AccumulatorType(grad))) : at::Tensor();
    args.parts = Write<Acc>(parts);
    C10_CUDA_CHECK(cuda::LaunchHeadGradient(args, Write<T>(Or(grad_weight)), c10::cuda::getCurrentCUDAStream()));
  });
}

void SwiGluOnCuda(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& y) {
  const Operands operands{"swiglu", gate};
  operands.Check("the gate", gate, gate.sizes());
  operands.Check("up", up, gate.sizes());
  operands.Check("the result", y, gate.sizes());
  const c10::cuda::CUDAGuard guard(gate.device());
  ByType(gate, [&](auto zero) {
    using T = decltype(zero);
    const cuda::SwiGluArgs<T> args{gate.numel(), Read<T>(gate), Read<T>(up), Write<T>(y)};
    C10_CUDA_CHECK(cuda::LaunchSwiGlu(args, c10::cuda::getCurrentCUDAStream()));
  });
}

void SwiGluBackwardOnCuda(const at::Tensor& grad, const at::Tensor& gate, const at::Tensor& up,
                          const at::Tensor& grad_gate, const at::Tensor& grad_up) {
  const Operands operands{"swiglu_backward", gate};
  operands.Check("the gradient", grad, gate.sizes());
  operands.Check("the gate", gate, gate.sizes());
  operands.Check("up", up, gate.sizes());
  operands.Check("the gate's gradient", grad_gate, gate.sizes());
  operands.Check("the gradient of up", grad_up, gate.sizes());
  const c10::cuda::CUDAGuard guard(gate.device());
  ByType(gate, [&](auto zero) {
    using T = decltype(zero);
    const cuda::SwiGluGradientArgs<T> args{gate.numel(), Read<T>(grad),       Read<T>(gate),
                                           Read<T>(up),  Write<T>(grad_gate), Write<T>(grad_up)};
    C10_CUDA_CHECK(cuda::LaunchSwiGluGradient(args, c10::cuda::getCurrentCUDAStream()));
  });
}

TORCH_LIBRARY_IMPL(ingot, CUDA, m) {
  m.impl("rms_norm", RmsNormOnCuda);
  m.impl("rms_norm_backward", RmsNormBackwardOnCuda);
  m.impl("norm_rotate", NormRotateOnCuda);
  m.impl("norm_rotate_backward", NormRotateBackwardOnCuda);
  m.impl("swiglu", SwiGluOnCuda);
  m.impl("swiglu_backward", SwiGluBackwardOnCuda);
}

}  // namespace
}  // namespace ingot::kernels
