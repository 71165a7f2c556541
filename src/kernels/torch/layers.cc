#include "kernels/torch/layers.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "kernels/layers.h"
#include "kernels/product.h"
#include "kernels/torch/threads.h"
#include "kernels/torch/typed.h"

namespace ingot::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// Whether the raw kernels take it.
bool Native(const at::Tensor& t) {
  const at::ScalarType type = t.scalar_type();
  return t.device().is_cpu() && (type == at::kFloat || type == at::kDouble || type == at::kBFloat16);
}

template <typename... Tensors>
bool NeedsGrad(const Tensors&... tensors) {
  return at::GradMode::is_enabled() && ((tensors.defined() && tensors.requires_grad()) || ...);
}

// Autograd takes no undefined tensors as arguments.
std::optional<at::Tensor> Optional(const at::Tensor& t) {
  return t.defined() ? std::optional<at::Tensor>(t) : std::nullopt;
}

void CheckSame(const char* what, const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(!b.defined() || (a.scalar_type() == b.scalar_type() && a.device() == b.device()), what, ": ",
              a.scalar_type(), " on ", a.device(), " meets ", b.scalar_type(), " on ", b.device());
}

// ---- linear

// wide: in the type of the sums.
at::Tensor LinearForward(const at::Tensor& x_in, const at::Tensor& weight_in, const at::Tensor& bias, bool wide) {
  const at::Tensor x = x_in.contiguous(), weight = weight_in.contiguous();
  const at::ScalarType type = wide ? AccumulatorType(x) : x.scalar_type();
  at::Tensor y = at::empty({x.size(0), weight.size(0)}, x.options().dtype(type));
  ByType(x, [&](auto zero) {
    using T = decltype(zero);
    LinearArgs<T> args{Read<T>(x), Read<T>(weight), Read<T>(bias), nullptr, x.size(0), x.size(1), weight.size(0), 0};
    if (type == x.scalar_type()) {
      args.y = Write<T>(y);
    } else {
      args.wide = Write<Accumulator<T>>(y);
    }
    Linear<T>(args, TorchParallelFor());
  });
  return y;
}

class LinearFunction : public Function<LinearFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, bool wide) {
    context->save_for_backward({x, weight});
    context->saved_data["bias"] = bias.has_value();
    at::NoGradGuard no_grad;
    return LinearForward(x, weight, bias.value_or(at::Tensor()), wide);
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    variable_list out(4);
    const at::Tensor grad = grads[0].to(saved[0].scalar_type());
    if (context->needs_input_grad(0)) out[0] = Product(grad, saved[1]);
    if (context->needs_input_grad(1)) out[1] = Product(grad.t(), saved[0]);
    if (context->saved_data["bias"].toBool() && context->needs_input_grad(2)) out[2] = grad.sum(0);
    return out;
  }
};

bool OfTiles(const at::Tensor& a) {
  return a.is_cpu() && a.scalar_type() == at::kBFloat16 && a.numel() > 0 && HasTileProduct();
}

// A matrix [outer, depth] that is dense in one of the two; a copy is kept in `held` where it is not.
ProductSide SideOf(const at::Tensor& matrix, at::Tensor& held) {
  held = matrix.stride(0) == 1 || matrix.stride(1) == 1 ? matrix : matrix.contiguous();
  const bool across = held.stride(1) != 1;
  return {Read<BFloat16>(held), held.stride(across ? 1 : 0), across};
}

void RunTileProduct(const at::Tensor& a, const at::Tensor& b, BFloat16* c, float* wide, bool add) {
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0) && b.scalar_type() == at::kBFloat16,
              "product: ", a.sizes(), " ", a.scalar_type(), " by ", b.sizes(), " ", b.scalar_type());
  at::Tensor held_a, held_b;
  TileProduct({.a = SideOf(a, held_a),
               .b = SideOf(b.t(), held_b),
               .m = a.size(0),
               .n = b.size(1),
               .depth = a.size(1),
               .c = c,
               .wide = wide,
               .add = add},
              TorchParallelFor());
}

// ---- RMSNorm

at::Tensor RmsNormForward(const at::Tensor& x, const at::Tensor& weight, double eps, at::Tensor* inverse) {
  at::Tensor y = at::empty_like(x);
  ByType(x, [&](auto zero) {
    using T = decltype(zero);
    using Acc = Accumulator<T>;
    RmsNorm<T>(Read<T>(x), Read<T>(weight), static_cast<Acc>(eps), x.size(0), x.size(1), Write<T>(y),
               inverse == nullptr ? nullptr : Write<Acc>(*inverse), TorchParallelFor());
  });
  return y;
}

class RmsNormFunction : public Function<RmsNormFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_in, const at::Tensor& weight, double eps) {
    at::NoGradGuard no_grad;
    const at::Tensor x = x_in.contiguous();
    at::Tensor inverse = at::empty({x.size(0)}, x.options().dtype(AccumulatorType(x)));
    at::Tensor y = RmsNormForward(x, weight, eps, &inverse);
    context->save_for_backward({x, weight, inverse});
    return y;
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], grad = grads[0].contiguous();
    at::Tensor grad_x = at::empty_like(x), grad_weight = at::empty_like(weight);
    ByType(x, [&](auto zero) {
      using T = decltype(zero);
      RmsNormBackward<T>(Read<T>(grad), Read<T>(x), Read<T>(weight), Read<Accumulator<T>>(saved[2]), x.size(0),
                         x.size(1), Write<T>(grad_x), Write<T>(grad_weight), TorchParallelFor());
    });
    return {grad_x, grad_weight, at::Tensor()};
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
    // Without a norm the backward pass needs the shape of x only.
    context->save_for_backward({weight.defined() ? x : at::Tensor(), weight, cos, sin, positions, inverse});
    context->saved_data["eps"] = eps;
    return y;
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &weight = saved[1], &cos = saved[2], &sin = saved[3], grad = grads[0].contiguous();
    const at::Tensor& x = weight.defined() ? saved[0] : grad;
    at::Tensor grad_x = at::empty_like(grad), grad_weight = weight.defined() ? at::empty_like(weight) : at::Tensor();
    ByType(grad, [&](auto zero) {
      using T = decltype(zero);
      const auto args = Rotation<T>(x, weight, context->saved_data["eps"].toDouble(), cos, sin, saved[4]);
      NormRotateBackward<T>(args, Read<T>(grad), Read<Accumulator<T>>(saved[5]), Write<T>(grad_x),
                            Write<T>(grad_weight), TorchParallelFor());
    });
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
    ByType(gate, [&](auto zero) {
      using T = decltype(zero);
      SwiGluBackward<T>(Read<T>(grad), Read<T>(gate), Read<T>(up), gate.numel(), Write<T>(grad_gate), Write<T>(grad_up),
                        TorchParallelFor());
    });
    return {grad_gate, grad_up};
  }
};

at::Tensor AnyLinear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, bool wide) {
  TORCH_CHECK(x.dim() == 2 && weight.dim() == 2 && x.size(1) == weight.size(1) &&
                  (!bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.size(0))),
              "linear: input ", x.sizes(), " does not fit weight ", weight.sizes());
  CheckSame("linear", x, weight);
  CheckSame("linear", x, bias);
  if (!Native(x)) {
    const at::Tensor y = at::linear(x, weight, bias);
    return wide ? y.to(AccumulatorType(x)) : y;
  }
  if (!NeedsGrad(x, weight, bias)) return LinearForward(x, weight, bias, wide);
  return LinearFunction::apply(x, weight, Optional(bias), wide);
}

}  // namespace

void AddEmbeddingGradient(const at::Tensor& ids, const at::Tensor& grad, const at::Tensor& weight) {
  const at::NoGradGuard no_history;
  at::Tensor& by_weight = weight.mutable_grad();
  if (!weight.is_cpu()) {
    at::Tensor all = at::embedding_dense_backward(grad, ids, weight.size(0), /*padding_idx=*/-1, false);
    by_weight = by_weight.defined() ? by_weight.add_(all) : all;
    return;
  }
  if (!by_weight.defined()) by_weight = at::zeros_like(weight);
  const auto [occurring, place, counts] = at::_unique2(ids, /*sorted=*/true, /*return_inverse=*/true);
  at::Tensor sums = by_weight.index_select(0, occurring).to(AccumulatorType(grad));
  sums.index_add_(0, place, grad.to(sums.scalar_type()));
  by_weight.index_copy_(0, occurring, sums.to(by_weight.scalar_type()));
}

at::Tensor Product(const at::Tensor& a, const at::Tensor& b, at::Tensor out) {
  const at::NoGradGuard no_history;
  if (!OfTiles(a)) return out.defined() ? at::mm_out(out, a, b) : at::mm(a, b);
  if (!out.defined()) out = at::empty({a.size(0), b.size(1)}, a.options());
  TORCH_CHECK(out.is_contiguous() && out.dim() == 2 && out.size(0) == a.size(0) && out.size(1) == b.size(1) &&
                  out.scalar_type() == at::kBFloat16,
              "product: ", a.sizes(), " by ", b.sizes(), " cannot be ", out.sizes(), " ", out.scalar_type());
  RunTileProduct(a, b, Write<BFloat16>(out), nullptr, /*add=*/false);
  return out;
}

void AddProduct(at::Tensor& sum, const at::Tensor& a, const at::Tensor& b) {
  const at::NoGradGuard no_history;
  const at::ScalarType type = AccumulatorType(a);
  const bool add = sum.defined();
  TORCH_CHECK(!add || (sum.is_contiguous() && sum.dim() == 2 && sum.size(0) == a.size(0) && sum.size(1) == b.size(1) &&
                       sum.scalar_type() == type),
              "product: ", a.sizes(), " by ", b.sizes(), " cannot be added to ", sum.sizes());
  if (OfTiles(a)) {
    if (!add) sum = at::empty({a.size(0), b.size(1)}, a.options().dtype(type));
    return RunTileProduct(a, b, nullptr, Write<float>(sum), add);
  }
  const at::Tensor part = at::mm(a, b);
  sum = add ? sum.add_(part) : part.to(type);
}

at::Tensor LinearOp(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return AnyLinear(x, weight, bias, /*wide=*/false);
}

at::Tensor WideLinearOp(const at::Tensor& x, const at::Tensor& weight) {
  return AnyLinear(x, weight, {}, /*wide=*/true);
}

at::Tensor RmsNormOp(const at::Tensor& x, const at::Tensor& weight, double eps) {
  TORCH_CHECK(x.dim() == 2 && weight.dim() == 1 && x.size(1) == weight.size(0), "RMSNorm: input ", x.sizes(),
              " does not fit weight ", weight.sizes());
  CheckSame("RMSNorm", x, weight);
  if (!Native(x)) return RmsNormAten(x, weight, eps);
  if (!NeedsGrad(x, weight)) return RmsNormForward(x.contiguous(), weight, eps, nullptr);
  return RmsNormFunction::apply(x, weight, eps);
}

at::Tensor NormRotateOp(const at::Tensor& x, const at::Tensor& weight, double eps, const at::Tensor& cos,
                        const at::Tensor& sin, const at::Tensor& positions) {
  TORCH_CHECK(x.dim() == 3 && x.size(2) % 2 == 0 && (!weight.defined() || weight.size(0) == x.size(2)), "RoPE: input ",
              x.sizes(), " has no even head_dim, or its norm another");
  TORCH_CHECK(cos.dim() == 2 && cos.size(1) == x.size(2) / 2 && sin.sizes() == cos.sizes(), "RoPE: tables ",
              cos.sizes(), " do not fit ", x.sizes());
  TORCH_CHECK(positions.dim() == 1 && positions.size(0) == x.size(0) && positions.scalar_type() == at::kLong,
              "RoPE: positions must be int64 [", x.size(0), "], got ", positions.scalar_type(), " ", positions.sizes());
  CheckSame("RoPE", x, weight);
  CheckSame("RoPE", x, cos);
  CheckSame("RoPE", x, sin);
  if (!Native(x)) return NormRotateAten(x, weight, eps, cos, sin, positions);
  const at::Tensor at_rows = positions.contiguous();
  const int64_t* position = at_rows.const_data_ptr<int64_t>();
  for (int64_t r = 0; r < x.size(0); ++r) {
    TORCH_CHECK(position[r] >= 0 && position[r] < cos.size(0), "RoPE: position ", position[r], " of row ", r,
                " is outside the model's ", cos.size(0), " positions (max_position_embeddings)");
  }
  if (!NeedsGrad(x, weight)) return NormRotateForward(x.contiguous(), weight, eps, cos, sin, at_rows, nullptr);
  return NormRotateFunction::apply(x, Optional(weight), eps, cos, sin, at_rows);
}

at::Tensor SwiGluOp(const at::Tensor& gate, const at::Tensor& up) {
  TORCH_CHECK(gate.sizes() == up.sizes(), "SwiGLU: gate ", gate.sizes(), " and up ", up.sizes(), " differ");
  CheckSame("SwiGLU", gate, up);
  if (!Native(gate)) return at::silu(gate) * up;
  if (!NeedsGrad(gate, up)) return SwiGluForward(gate.contiguous(), up.contiguous());
  return SwiGluFunction::apply(gate, up);
}

}  // namespace ingot::kernels
