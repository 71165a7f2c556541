#include "kernels/torch/layers.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <optional>

#include "kernels/layers.h"
#include "kernels/torch/add_rows.h"
#include "kernels/torch/device_op.h"
#include "kernels/torch/layers_ops.h"
#include "kernels/torch/operands.h"
#include "kernels/torch/threads.h"
#include "kernels/torch/typed.h"

namespace ingot::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

TORCH_LIBRARY_FRAGMENT(ingot, m) {
  m.def(
      "rms_norm(Tensor x, Tensor? plus, Tensor weight, float eps, Tensor(a!)? sum, Tensor(b!) y, Tensor(c!)? inverse) "
      "-> ()");
  m.def(
      "rms_norm_backward(Tensor grad, Tensor? by_sum, Tensor x, Tensor weight, Tensor inverse, Tensor(a!) grad_x, "
      "Tensor(b!) grad_weight) -> ()");
  m.def(
      "norm_rotate(Tensor x, Tensor? weight, float eps, Tensor cos, Tensor sin, Tensor positions, Tensor(a!) y, "
      "Tensor(b!)? inverse) -> ()");
  m.def(
      "norm_rotate_backward(Tensor grad, Tensor? x, Tensor? weight, Tensor? inverse, Tensor cos, Tensor sin, "
      "Tensor positions, Tensor(a!) grad_x, Tensor(b!)? grad_weight) -> ()");
  m.def("gather_rows(Tensor table, Tensor ids, Tensor(a!) rows) -> ()");
  m.def("swiglu(Tensor gate, Tensor up, Tensor(a!) y) -> ()");
  m.def("swiglu_backward(Tensor grad, Tensor gate, Tensor up, Tensor(a!) grad_gate, Tensor(b!) grad_up) -> ()");
}

// Returns whether the tensor's device has kernels for it.
bool HasKernels(const at::Tensor& t) {
  static const DeviceOp<RmsNormSignature> op("ingot::rms_norm");
  return Native(t) || op.Serves(t);
}

// ---- RMSNorm

// plus: undefined, or added to x first. `sum` then receives the sum.
at::Tensor RmsNormForward(const at::Tensor& x, const at::Tensor& plus, const at::Tensor& weight, double eps,
                          at::Tensor& sum, at::Tensor* inverse) {
  at::Tensor y = at::empty_like(x);
  sum = plus.defined() ? at::empty_like(x) : x;
  if (!x.is_cpu()) {
    static const DeviceOp<RmsNormSignature> op("ingot::rms_norm");
    op(x, Optional(plus), weight, eps, plus.defined() ? MaybeTensor(sum) : std::nullopt, y,
       inverse == nullptr ? std::nullopt : MaybeTensor(*inverse));
    return y;
  }
  ByType(x, [&](auto zero) {
    using T = decltype(zero);
    using Acc = Accumulator<T>;
    RmsNorm<T>({.x = Read<T>(x),
                .plus = Read<T>(plus),
                .sum = plus.defined() ? Write<T>(sum) : nullptr,
                .weight = Read<T>(weight),
                .eps = static_cast<Acc>(eps),
                .rows = x.size(0),
                .n = x.size(1)},
               Write<T>(y), inverse == nullptr ? nullptr : Write<Acc>(*inverse), TorchParallelFor());
  });
  return y;
}

class ResidualNormFunction : public Function<ResidualNormFunction> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& x_in, const std::optional<at::Tensor>& plus,
                               const at::Tensor& weight, double eps) {
    const at::NoGradGuard no_grad;
    const at::Tensor x = x_in.contiguous();
    at::Tensor sum, inverse = at::empty({x.size(0)}, x.options().dtype(AccumulatorType(x)));
    at::Tensor y = RmsNormForward(x, plus.has_value() ? plus->contiguous() : at::Tensor(), weight, eps, sum, &inverse);
    context->save_for_backward({sum, weight, inverse});
    context->saved_data["plus"] = plus.has_value();
    context->set_materialize_grads(false);
    return {sum, y};
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &sum = saved[0], &weight = saved[1];
    const bool plus = context->saved_data["plus"].toBool();
    if (!grads[1].defined()) return {grads[0], plus ? grads[0] : at::Tensor(), at::Tensor(), at::Tensor()};
    const at::Tensor past = grads[0].defined() ? grads[0].contiguous() : grads[0], grad = grads[1].contiguous();
    at::Tensor grad_x = at::empty_like(sum), grad_weight = at::empty_like(weight);
    if (!sum.is_cpu()) {
      static const DeviceOp<RmsNormBackwardSignature> op("ingot::rms_norm_backward");
      op(grad, Optional(past), sum, weight, saved[2], grad_x, grad_weight);
    } else {
      ByType(sum, [&](auto zero) {
        using T = decltype(zero);
        RmsNormBackward<T>({.x = Read<T>(sum), .weight = Read<T>(weight), .rows = sum.size(0), .n = sum.size(1)},
                           Read<T>(grad), Read<T>(past), Read<Accumulator<T>>(saved[2]), Write<T>(grad_x),
                           Write<T>(grad_weight), TorchParallelFor());
      });
    }
    return {grad_x, plus ? grad_x : at::Tensor(), grad_weight, at::Tensor()};
  }
};

at::Tensor RmsNormAten(const at::Tensor& x, const at::Tensor& weight, double eps) {
  const bool wide = x.scalar_type() == at::kDouble;
  const at::Tensor f = wide ? x : x.to(at::kFloat);
  return (f * at::rsqrt(f.square().mean(-1, true) + eps)).to(x.scalar_type()) * weight;
}

// ---- norm and rotation of heads

template <typename T>
RotateArgs<T> Rotation(const at::Tensor& x, const at::Tensor& weight, double eps, const at::Tensor& cos,
                       const at::Tensor& sin, const at::Tensor& positions) {
  return {Read<T>(x),
          Read<T>(weight),
          static_cast<Accumulator<T>>(eps),
          Read<T>(cos),
          Read<T>(sin),
          Read<int64_t>(positions),
          x.size(0),
          x.size(1),
          x.size(2),
          0};
}

at::Tensor NormRotateForward(const at::Tensor& x, const at::Tensor& weight, double eps, const at::Tensor& cos,
                             const at::Tensor& sin, const at::Tensor& positions, at::Tensor* inverse) {
  at::Tensor y = at::empty_like(x);
  if (!x.is_cpu()) {
    static const DeviceOp<NormRotateSignature> op("ingot::norm_rotate");
    op(x, Optional(weight), eps, cos, sin, positions, y, inverse == nullptr ? std::nullopt : MaybeTensor(*inverse));
    return y;
  }
  ByType(x, [&](auto zero) {
    using T = decltype(zero);
    NormRotate<T>(Rotation<T>(x, weight, eps, cos, sin, positions), Write<T>(y),
                  inverse == nullptr ? nullptr : Write<Accumulator<T>>(*inverse), TorchParallelFor());
  });
  return y;
}

class NormRotateFunction : public Function<NormRotateFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_in,
                            const std::optional<at::Tensor>& weight_in, double eps, const at::Tensor& cos,
                            const at::Tensor& sin, const at::Tensor& positions) {
    at::NoGradGuard no_grad;
    const at::Tensor x = x_in.contiguous(), weight = weight_in.value_or(at::Tensor());
    const auto options = x.options().dtype(AccumulatorType(x));
    at::Tensor inverse = at::empty({weight.defined() ? x.size(0) * x.size(1) : 0}, options);
    at::Tensor y = NormRotateForward(x, weight, eps, cos, sin, positions, &inverse);
    // Without a norm, the backward pass needs only the shape of x.
    context->save_for_backward({weight.defined() ? x : at::Tensor(), weight, cos, sin, positions, inverse});
    context->saved_data["eps"] = eps;
    return y;
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &weight = saved[1], &cos = saved[2], &sin = saved[3], grad = grads[0].contiguous();
    const at::Tensor& x = weight.defined() ? saved[0] : grad;
    at::Tensor grad_x = at::empty_like(grad), grad_weight = weight.defined() ? at::empty_like(weight) : at::Tensor();
    if (!grad.is_cpu()) {
      static const DeviceOp<NormRotateBackwardSignature> op("ingot::norm_rotate_backward");
      const bool norm = weight.defined();
      op(grad, norm ? MaybeTensor(x) : std::nullopt, Optional(weight), norm ? MaybeTensor(saved[5]) : std::nullopt, cos,
         sin, saved[4], grad_x, Optional(grad_weight));
    } else {
      ByType(grad, [&](auto zero) {
        using T = decltype(zero);
        const auto args = Rotation<T>(x, weight, context->saved_data["eps"].toDouble(), cos, sin, saved[4]);
        NormRotateBackward<T>(args, Read<T>(grad), Read<Accumulator<T>>(saved[5]), Write<T>(grad_x),
                              Write<T>(grad_weight), TorchParallelFor());
      });
    }
    return {grad_x, grad_weight, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

at::Tensor NormRotateAten(const at::Tensor& x, const at::Tensor& weight, double eps, const at::Tensor& cos,
                          const at::Tensor& sin, const at::Tensor& positions) {
  const at::Tensor n = weight.defined() ? RmsNormAten(x, weight, eps) : x;
  const at::Tensor c = cos.index_select(0, positions).unsqueeze(1), s = sin.index_select(0, positions).unsqueeze(1);
  const auto halves = n.chunk(2, -1);
  return at::cat({halves[0] * c - halves[1] * s, halves[1] * c + halves[0] * s}, -1);
}

// ---- SwiGLU

at::Tensor SwiGluForward(const at::Tensor& gate, const at::Tensor& up) {
  at::Tensor y = at::empty_like(gate);
  if (!gate.is_cpu()) {
    static const DeviceOp<SwiGluSignature> op("ingot::swiglu");
    op(gate, up, y);
    return y;
  }
  ByType(gate, [&](auto zero) {
    using T = decltype(zero);
    SwiGlu<T>(Read<T>(gate), Read<T>(up), gate.numel(), Write<T>(y), TorchParallelFor());
  });
  return y;
}

class SwiGluFunction : public Function<SwiGluFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate_in, const at::Tensor& up_in) {
    at::NoGradGuard no_grad;
    const at::Tensor gate = gate_in.contiguous(), up = up_in.contiguous();
    context->save_for_backward({gate, up});
    return SwiGluForward(gate, up);
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &gate = saved[0], &up = saved[1], grad = grads[0].contiguous();
    at::Tensor grad_gate = at::empty_like(gate), grad_up = at::empty_like(up);
    if (!gate.is_cpu()) {
      static const DeviceOp<SwiGluBackwardSignature> op("ingot::swiglu_backward");
      op(grad, gate, up, grad_gate, grad_up);
    } else {
      ByType(gate, [&](auto zero) {
        using T = decltype(zero);
        SwiGluBackward<T>(Read<T>(grad), Read<T>(gate), Read<T>(up), gate.numel(), Write<T>(grad_gate),
                          Write<T>(grad_up), TorchParallelFor());
      });
    }
    return {grad_gate, grad_up};
  }
};

}  // namespace

void AddEmbeddingGradient(const at::Tensor& ids, const at::Tensor& grad, const at::Tensor& weight) {
  const at::NoGradGuard no_history;
  at::Tensor& by_weight = weight.mutable_grad();
  if (!by_weight.defined()) by_weight = at::zeros_like(weight);
  AddRows(by_weight, ids, grad);
}

at::Tensor RmsNormOp(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return ResidualNormOp(x, {}, weight, eps).normed;
}

at::Tensor EmbeddingRows(const at::Tensor& weight, const at::Tensor& ids) {
  const at::NoGradGuard no_history;
  static const DeviceOp<GatherRowsSignature> op("ingot::gather_rows");
  if (!op.Serves(weight)) return at::embedding(weight, ids);
  at::Tensor rows = at::empty({ids.size(0), weight.size(1)}, weight.options().requires_grad(false));
  op(weight, ids.contiguous(), rows);
  return rows;
}

Residual ResidualNormOp(const at::Tensor& x, const at::Tensor& plus, const at::Tensor& weight, double eps) {
  TORCH_CHECK(x.dim() == 2 && weight.dim() == 1 && x.size(1) == weight.size(0), "RMSNorm: input ", x.sizes(),
              " does not match weight ", weight.sizes());
  TORCH_CHECK(!plus.defined() || plus.sizes() == x.sizes(), "RMSNorm: ", plus.sizes(), " cannot be added to ",
              x.sizes());
  CheckSame("RMSNorm", x, weight);
  CheckSame("RMSNorm", x, plus);
  Residual result;
  if (!HasKernels(x)) {
    result.sum = plus.defined() ? x + plus : x;
    result.normed = RmsNormAten(result.sum, weight, eps);
  } else if (NeedsGrad(x, plus, weight)) {
    const variable_list both = ResidualNormFunction::apply(x, Optional(plus), weight, eps);
    result = {both[0], both[1]};
  } else {
    const at::Tensor dense = plus.defined() ? plus.contiguous() : plus;
    result.normed = RmsNormForward(x.contiguous(), dense, weight, eps, result.sum, nullptr);
  }
  return result;
}

at::Tensor NormRotateOp(const at::Tensor& x, const at::Tensor& weight, double eps, const at::Tensor& cos,
                        const at::Tensor& sin, const at::Tensor& positions) {
  TORCH_CHECK(x.dim() == 3 && x.size(2) % 2 == 0 && (!weight.defined() || weight.size(0) == x.size(2)), "RoPE: input ",
              x.sizes(), " has an odd head_dim, or its norm does not match");
  TORCH_CHECK(cos.dim() == 2 && cos.size(1) == x.size(2) / 2 && sin.sizes() == cos.sizes(), "RoPE: tables ",
              cos.sizes(), " do not match ", x.sizes());
  TORCH_CHECK(positions.dim() == 1 && positions.size(0) == x.size(0) && positions.scalar_type() == at::kLong,
              "RoPE: positions must be int64 [", x.size(0), "], got ", positions.scalar_type(), " ", positions.sizes());
  CheckSame("RoPE", x, weight);
  CheckSame("RoPE", x, cos);
  CheckSame("RoPE", x, sin);
  if (!HasKernels(x)) return NormRotateAten(x, weight, eps, cos, sin, positions);
  const at::Tensor at_rows = positions.contiguous();
  const int64_t* position = x.is_cpu() ? at_rows.const_data_ptr<int64_t>() : nullptr;  // a device's kernel checks
  for (int64_t r = 0; position != nullptr && r < x.size(0); ++r) {
    TORCH_CHECK(position[r] >= 0 && position[r] < cos.size(0), "RoPE: position ", position[r], " of row ", r,
                " is outside the model's ", cos.size(0), " positions (max_position_embeddings)");
  }
  if (!NeedsGrad(x, weight)) return NormRotateForward(x.contiguous(), weight, eps, cos, sin, at_rows, nullptr);
  return NormRotateFunction::apply(x, Optional(weight), eps, cos, sin, at_rows);
}

at::Tensor SwiGluOp(const at::Tensor& gate, const at::Tensor& up) {
  TORCH_CHECK(gate.sizes() == up.sizes(), "SwiGLU: gate ", gate.sizes(), " and up ", up.sizes(), " differ");
  CheckSame("SwiGLU", gate, up);
  if (!HasKernels(gate)) return at::silu(gate) * up;
  if (!NeedsGrad(gate, up)) return SwiGluForward(gate.contiguous(), up.contiguous());
  return SwiGluFunction::apply(gate, up);
}

}  // namespace ingot::kernels
