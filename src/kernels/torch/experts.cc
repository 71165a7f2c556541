#include "kernels/torch/experts.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <tuple>

#include "kernels/torch/operands.h"
#include "kernels/torch/threads.h"
#include "kernels/torch/typed.h"

namespace ingot::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// Calls f with a zero of fp32 or fp64.
template <typename F>
void Wide(const at::Tensor& t, F&& f) {
  if (t.scalar_type() == at::kDouble) return f(double{});
  TORCH_CHECK(t.scalar_type() == at::kFloat && t.is_cpu(), "routing: logits must be fp32 or fp64 on the CPU, got ",
              t.scalar_type(), " on ", t.device());
  f(float{});
}

template <typename T>
RoutingArgs<T> ArgsOf(const at::Tensor& logits, const at::Tensor& bias, const at::Tensor& routes,
                      const at::Tensor& scores, const at::Tensor& weights) {
  return {.logits = Read<T>(logits),
          .bias = Read<T>(bias),
          .routes = Write<int64_t>(routes),
          .scores = Write<T>(scores),
          .weights = Write<T>(weights)};
}

// Returns weights, scores, and routes.
variable_list RouteForward(const at::Tensor& logits, const at::Tensor& bias, const at::Tensor& replay,
                           const RoutingShape& shape) {
  const at::Tensor routes = replay.defined()
                                ? replay.contiguous()
                                : at::empty({shape.rows, shape.per_token}, logits.options().dtype(at::kLong));
  at::Tensor scores = at::empty_like(logits), weights = at::empty({shape.rows, shape.per_token}, logits.options());
  Wide(logits, [&](auto zero) {
    using T = decltype(zero);
    RoutingArgs<T> args = ArgsOf<T>(logits, bias, routes, scores, weights);
    args.chosen = replay.defined();
    Route<T>(shape, args, TorchParallelFor());
  });
  return {weights, scores, routes};
}

class RouteFunction : public Function<RouteFunction> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& logits_in,
                               const std::optional<at::Tensor>& bias, const std::optional<at::Tensor>& replay,
                               const std::vector<int64_t>& numbers, double scale) {
    const at::NoGradGuard no_grad;
    const at::Tensor logits = logits_in.contiguous();
    const RoutingShape shape = ShapeOf(numbers, scale);
    variable_list results = RouteForward(logits, bias.value_or(at::Tensor()), replay.value_or(at::Tensor()), shape);
    context->save_for_backward({logits, results[0], results[1], results[2]});
    context->saved_data["numbers"] = numbers;
    context->saved_data["scale"] = scale;
    context->mark_non_differentiable({results[2]});
    context->set_materialize_grads(false);
    return results;
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const RoutingShape shape =
        ShapeOf(context->saved_data["numbers"].toIntVector(), context->saved_data["scale"].toDouble());
    const at::Tensor& logits = saved[0];
    const at::Tensor by_weights = grads[0].defined() ? grads[0].contiguous() : grads[0];
    const at::Tensor by_scores = grads[1].defined() ? grads[1].contiguous() : grads[1];
    at::Tensor grad = at::empty_like(logits);
    Wide(logits, [&](auto zero) {
      using T = decltype(zero);
      RouteBackward<T>(shape, ArgsOf<T>(logits, {}, saved[3], saved[2], saved[1]), Read<T>(by_weights),
                       Read<T>(by_scores), Write<T>(grad), TorchParallelFor());
    });
    return {grad, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }

  static std::vector<int64_t> NumbersOf(const RoutingShape& s) {
    return {s.rows,
            s.experts,
            s.per_token,
            s.groups,
            s.groups_per_token,
            static_cast<int64_t>(s.scoring),
            s.normalize ? 1 : 0};
  }

 private:
  static RoutingShape ShapeOf(const std::vector<int64_t>& n, double scale) {
    return {n[0], n[1], n[2], n[3], n[4], static_cast<RouterScoring>(n[5]), n[6] != 0, scale};
  }
};

class GatedFunction : public Function<GatedFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate_in, const at::Tensor& up_in,
                            int64_t kind) {
    const at::NoGradGuard no_grad;
    const at::Tensor gate = gate_in.contiguous(), up = up_in.contiguous();
    context->save_for_backward({gate, up});
    context->saved_data["kind"] = kind;
    return GatedOp(static_cast<Gate>(kind), gate, up);
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &gate = saved[0], &up = saved[1], grad = grads[0].contiguous();
    const auto kind = static_cast<Gate>(context->saved_data["kind"].toInt());
    at::Tensor grad_gate = at::empty_like(gate), grad_up = at::empty_like(up);
    ByType(gate, [&](auto zero) {
      using T = decltype(zero);
      GatedBackward<T>(kind, Read<T>(grad), Read<T>(gate), Read<T>(up), gate.numel(), Write<T>(grad_gate),
                       Write<T>(grad_up), TorchParallelFor());
    });
    return {grad_gate, grad_up, at::Tensor()};
  }
};

}  // namespace

RoutedTokens RouteOp(const at::Tensor& logits, const at::Tensor& bias, const at::Tensor& replay, RoutingShape shape) {
  TORCH_CHECK(logits.dim() == 2 && shape.per_token >= 1 && shape.per_token <= logits.size(1), "routing: logits ",
              logits.sizes(), ", ", shape.per_token, " experts per token");
  shape.rows = logits.size(0);
  shape.experts = logits.size(1);
  TORCH_CHECK(shape.groups >= 1 && shape.experts % shape.groups == 0, "routing: ", shape.groups, " groups of ",
              shape.experts, " experts");
  if (bias.defined()) {
    TORCH_CHECK(bias.dim() == 1 && bias.size(0) == shape.experts, "routing: bias ", bias.sizes());
  }
  if (replay.defined()) {
    TORCH_CHECK(replay.dim() == 2 && replay.size(0) == shape.rows && replay.size(1) == shape.per_token &&
                    replay.scalar_type() == at::kLong,
                "routing: routes to replay are ", replay.scalar_type(), " ", replay.sizes());
    TORCH_CHECK(
        replay.numel() == 0 || (replay.min().item<int64_t>() >= 0 && replay.max().item<int64_t>() < shape.experts),
        "routing: a route to replay is out of range; number of experts: ", shape.experts);
  }
  const at::Tensor wide_bias = bias.defined() ? bias.detach().to(logits.scalar_type()).contiguous() : bias;
  const variable_list results = NeedsGrad(logits) ? RouteFunction::apply(logits, Optional(wide_bias), Optional(replay),
                                                                         RouteFunction::NumbersOf(shape), shape.scale)
                                                  : RouteForward(logits.contiguous(), wide_bias, replay, shape);
  return {results[0], results[1], results[2]};
}

at::Tensor GatedOp(Gate kind, const at::Tensor& gate, const at::Tensor& up) {
  TORCH_CHECK(gate.sizes() == up.sizes() && gate.is_cpu(), "gate ", gate.sizes(), " and up ", up.sizes(), " on ",
              gate.device());
  CheckSame("gate", gate, up);
  if (NeedsGrad(gate, up)) return GatedFunction::apply(gate, up, static_cast<int64_t>(kind));
  const at::Tensor g = gate.contiguous(), u = up.contiguous();
  at::Tensor y = at::empty_like(g);
  ByType(g, [&](auto zero) {
    using T = decltype(zero);
    Gated<T>(kind, Read<T>(g), Read<T>(u), g.numel(), Write<T>(y), TorchParallelFor());
  });
  return y;
}

}  // namespace ingot::kernels
