#include "kernels/torch/gated_delta.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>

#include "kernels/torch/operands.h"
#include "kernels/torch/threads.h"
#include "kernels/torch/typed.h"

namespace ingot::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr char kWhat[] = "gated delta rule";

// The call's tensors as the kernels read them: dense, and the recurrence's tensors in the type of its sums.
struct Operands {
  at::Tensor x, convolution, step, rate, decay, step_bias, past, states;
  RowPlan plan;
};

void CheckStates(const DeltaShape& shape, const DeltaStates& states, at::ScalarType past, const at::Tensor& x) {
  if (!states.defined()) return;
  TORCH_CHECK(states.state.dim() == 4 && states.state[0].numel() == shape.state() &&
                  states.past.numel() == states.state.size(0) * shape.past() && states.state.is_contiguous() &&
                  states.past.is_contiguous() && states.state.is_cpu() && states.past.is_cpu() &&
                  states.state.scalar_type() == AccumulatorType(x) && states.past.scalar_type() == past,
              kWhat, ": states ", states.state.sizes(), " with inputs ", states.past.sizes(), " do not match");
}

Operands Prepare(const DeltaShape& shape, const DeltaInput& in, std::span<const int32_t> parents,
                 const DeltaStates& from, std::span<const KeptState> kept) {
  const int64_t rows = in.x.size(0);
  TORCH_CHECK(Native(in.x), kWhat, ": there is no kernel for ", in.x.scalar_type(), " on ", in.x.device(),
              ", only for float32, float64 and bfloat16 on the CPU");
  TORCH_CHECK(shape.key_heads > 0 && shape.value_heads % shape.key_heads == 0 && shape.kernel > 0 && in.x.dim() == 2 &&
                  in.x.size(1) == shape.channels(),
              kWhat, ": input ", in.x.sizes(), " does not match ", shape.key_heads, " and ", shape.value_heads,
              " heads");
  for (const at::Tensor* t : {&in.step, &in.rate}) {
    CheckSame(kWhat, in.x, *t);
    TORCH_CHECK(t->dim() == 2 && t->size(0) == rows && t->size(1) == shape.value_heads, kWhat, ": step or rate is ",
                t->sizes());
  }
  for (const at::Tensor* t : {&in.convolution, &in.step_bias, &in.decay}) CheckSame(kWhat, in.x, *t);
  TORCH_CHECK(in.convolution.numel() == shape.channels() * shape.kernel && in.step_bias.numel() == shape.value_heads &&
                  in.decay.numel() == shape.value_heads,
              kWhat, ": weights ", in.convolution.sizes(), ", ", in.step_bias.sizes(), ", ", in.decay.sizes());
  TORCH_CHECK(static_cast<int64_t>(parents.size()) == rows, kWhat, ": ", parents.size(), " parents of ", rows, " rows");
  CheckStates(shape, from, in.x.scalar_type(), in.x);
  std::optional<RowPlan> plan = PlanRows({parents.begin(), parents.end()}, from.defined() ? from.state.size(0) : 0);
  TORCH_CHECK(plan.has_value(), kWhat, ": a row's parent is neither an earlier row on the path nor an input state");
  for (size_t i = 0; i < kept.size(); ++i) {
    TORCH_CHECK(kept[i].row >= 0 && kept[i].row < rows && (i == 0 || kept[i - 1].row <= kept[i].row), kWhat,
                ": kept rows must be in ascending order within ", rows);
  }
  const at::ScalarType wide = AccumulatorType(in.x);
  const auto widened = [&](const at::Tensor& t) { return t.detach().to(wide).contiguous(); };
  return {in.x.detach().contiguous(),
          in.convolution.detach().contiguous(),
          widened(in.step),
          widened(in.rate),
          widened(in.decay),
          widened(in.step_bias),
          from.past,
          from.state,
          *std::move(plan)};
}

template <typename T>
ConvolveArgs<T> ConvolutionOf(const Operands& of, std::span<const KeptState> kept) {
  return {Read<T>(of.x), Read<T>(of.convolution), Read<T>(of.past), kept};
}
template <typename Acc>
DeltaArgs<Acc> DeltaOf(const Operands& of, const at::Tensor& u, std::span<const KeptState> kept) {
  return {Read<Acc>(u),
          Read<Acc>(of.step),
          Read<Acc>(of.rate),
          Read<Acc>(of.decay),
          Read<Acc>(of.step_bias),
          Read<Acc>(of.states),
          kept};
}

// Returns q, k, and v after the convolution. Writes the kept rows' inputs.
at::Tensor Convolved(const DeltaShape& shape, const Operands& of, std::span<const KeptState> kept,
                     const at::Tensor& kept_past) {
  at::Tensor u = at::empty({of.plan.rows(), shape.channels()}, of.step.options());
  ByType(of.x, [&](auto zero) {
    using T = decltype(zero);
    Convolve<T>(shape, of.plan, ConvolutionOf<T>(of, kept), Write<Accumulator<T>>(u), Write<T>(kept_past),
                TorchParallelFor());
  });
  return u;
}

template <typename F>
void Wide(const at::Tensor& t, F&& f) {
  t.scalar_type() == at::kDouble ? f(double{}) : f(float{});
}

class GatedDeltaFunction : public Function<GatedDeltaFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& step,
                            const at::Tensor& rate, const at::Tensor& convolution, const at::Tensor& step_bias,
                            const at::Tensor& decay, const std::vector<int64_t>& numbers, const at::Tensor& parents) {
    const at::NoGradGuard no_grad;
    context->save_for_backward({x, step, rate, convolution, step_bias, decay, parents});
    context->saved_data["numbers"] = numbers;
    return GatedDeltaForward(ShapeOf(numbers), {x, step, rate, convolution, step_bias, decay}, Span(parents), {}, {},
                             {});
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const DeltaInput by = GatedDeltaBackward(ShapeOf(context->saved_data["numbers"].toIntVector()),
                                             {saved[0], saved[1], saved[2], saved[3], saved[4], saved[5]},
                                             Span(saved[6]), {}, {}, grads[0], {}, {});
    return {by.x, by.step, by.rate, by.convolution, by.step_bias, by.decay, at::Tensor(), at::Tensor()};
  }
  static std::vector<int64_t> NumbersOf(const DeltaShape& s) {
    return {s.key_heads, s.value_heads, s.key_dim, s.value_dim, s.kernel};
  }

 private:
  static DeltaShape ShapeOf(const std::vector<int64_t>& n) { return {n[0], n[1], n[2], n[3], n[4]}; }
  static std::span<const int32_t> Span(const at::Tensor& t) {
    return {t.const_data_ptr<int32_t>(), static_cast<size_t>(t.numel())};
  }
};

}  // namespace

DeltaStates NewDeltaStates(const DeltaShape& shape, int64_t slots, const at::TensorOptions& input) {
  const at::ScalarType type = c10::typeMetaToScalarType(input.dtype());
  return {at::zeros({slots, shape.value_heads, shape.key_dim, shape.value_dim},
                    input.dtype(type == at::kDouble ? at::kDouble : at::kFloat)),
          at::zeros({slots, shape.kernel - 1, shape.channels()}, input)};
}

at::Tensor GatedDeltaForward(const DeltaShape& shape, const DeltaInput& input, std::span<const int32_t> parents,
                             const DeltaStates& from, std::span<const KeptState> kept, const DeltaStates& into) {
  const at::NoGradGuard no_grad;
  const Operands of = Prepare(shape, input, parents, from, kept);
  TORCH_CHECK(kept.empty() || into.defined(), kWhat, ": `into` is undefined, but some states are to be kept");
  CheckStates(shape, into, input.x.scalar_type(), input.x);
  for (const KeptState& one : kept) {
    TORCH_CHECK(one.slot >= 0 && one.slot < into.state.size(0), kWhat, ": no slot ", one.slot, " for a kept state");
  }
  const at::Tensor u = Convolved(shape, of, kept, into.past);
  at::Tensor out = at::empty({of.plan.rows(), shape.value_heads, shape.value_dim}, of.step.options());
  Wide(out, [&](auto zero) {
    using Acc = decltype(zero);
    DeltaForward<Acc>(shape, of.plan, DeltaOf<Acc>(of, u, kept), Write<Acc>(out), Write<Acc>(into.state),
                      TorchParallelFor());
  });
  return out.to(input.x.scalar_type());
}

DeltaInput GatedDeltaBackward(const DeltaShape& shape, const DeltaInput& input, std::span<const int32_t> parents,
                              const DeltaStates& from, std::span<const KeptState> kept, const at::Tensor& grad,
                              const DeltaStates& by_kept, const DeltaStates& by_from) {
  const at::NoGradGuard no_grad;
  const Operands of = Prepare(shape, input, parents, from, kept);
  const at::ScalarType type = input.x.scalar_type(), wide = AccumulatorType(input.x);
  for (const DeltaStates* states : {&by_kept, &by_from}) CheckStates(shape, *states, wide, input.x);
  const at::Tensor u = Convolved(shape, of, {}, {}), by_out = grad.to(wide).contiguous();
  at::Tensor by_u = at::empty_like(u), by_step = at::empty_like(of.step), by_rate = at::empty_like(of.rate),
             by_decay = at::empty_like(of.decay), by_bias = at::empty_like(of.step_bias);
  Wide(u, [&](auto zero) {
    using Acc = decltype(zero);
    DeltaBackward<Acc>(shape, of.plan, DeltaOf<Acc>(of, u, kept), Read<Acc>(by_out), Read<Acc>(by_kept.state),
                       {Write<Acc>(by_u), Write<Acc>(by_step), Write<Acc>(by_rate), Write<Acc>(by_decay),
                        Write<Acc>(by_bias), Write<Acc>(by_from.state)},
                       TorchParallelFor());
  });
  at::Tensor by_x = at::empty_like(u), by_convolution = at::empty(input.convolution.sizes(), u.options());
  ByType(of.x, [&](auto zero) {
    using T = decltype(zero);
    using Acc = Accumulator<T>;
    ConvolveBackward<T>(shape, of.plan, ConvolutionOf<T>(of, kept), Read<Acc>(by_u), Read<Acc>(by_kept.past),
                        Write<Acc>(by_x), Write<Acc>(by_convolution), Write<Acc>(by_from.past), TorchParallelFor());
  });
  return {by_x.to(type),           by_step.to(type), by_rate.to(type),
          by_convolution.to(type), by_bias.to(type), by_decay.to(type)};
}

at::Tensor GatedDelta(const DeltaShape& shape, const DeltaInput& input, std::span<const int32_t> parents) {
  if (!NeedsGrad(input.x, input.step, input.rate, input.convolution, input.step_bias, input.decay)) {
    return GatedDeltaForward(shape, input, parents, {}, {}, {});
  }
  at::Tensor rows = at::empty({static_cast<int64_t>(parents.size())}, at::kInt);
  std::copy(parents.begin(), parents.end(), rows.mutable_data_ptr<int32_t>());
  return GatedDeltaFunction::apply(input.x, input.step, input.rate, input.convolution, input.step_bias, input.decay,
                                   GatedDeltaFunction::NumbersOf(shape), rows);
}

std::vector<int32_t> ParentsOf(const at::Tensor& visible_end, int64_t rows) {
  std::vector<int32_t> parents(static_cast<size_t>(rows));
  const at::Tensor ends = visible_end.defined() ? visible_end.contiguous() : visible_end;
  TORCH_CHECK(!ends.defined() || (ends.scalar_type() == at::kInt && ends.is_cpu() && ends.numel() == rows), kWhat,
              ": visible_end must be int32 [", rows, "] on the CPU");
  const int32_t* end = Read<int32_t>(ends);
  std::vector<int32_t> path;
  for (int32_t row = 0; row < rows; ++row) {
    while (end != nullptr && !path.empty() && end[path.back()] <= row) path.pop_back();
    parents[static_cast<size_t>(row)] = path.empty() ? kNoParent : path.back();
    path.push_back(row);
  }
  return parents;
}

}  // namespace ingot::kernels
