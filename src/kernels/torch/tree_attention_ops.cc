// Defines the operators' schema, autograd, and shapes, which are the same for every device.
#include "kernels/torch/tree_attention_ops.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>
#include <torch/library.h>

#include <algorithm>
#include <initializer_list>
#include <string>

#include "kernels/torch/tree_attention.h"
#include "kernels/torch/typed.h"

namespace ingot::kernels {
namespace {

OptionalTensor Optional(const at::Tensor& t) { return t.defined() ? OptionalTensor(t) : std::nullopt; }

OptionalPlans Optional(const c10::intrusive_ptr<AttentionPlans>& plans) {
  return plans.defined() ? OptionalPlans(plans) : std::nullopt;
}

const c10::OperatorHandle& ForwardOperator() {
  static const c10::OperatorHandle op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ingot::tree_attention_forward", "");
  return op;
}

const c10::OperatorHandle& BackwardOperator() {
  static const c10::OperatorHandle op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ingot::tree_attention_backward", "");
  return op;
}

// The dispatcher's own message lists dozens of keys. This message names the missing library.
void CheckDevice(const at::Tensor& q) {
  TORCH_CHECK(
      ForwardOperator().hasKernelForDispatchKey(c10::computeDispatchKey(q.scalar_type(), q.layout(), q.device())),
      "tree attention has no kernel for device ", q.device(), " (", q.layout(),
      "): load the device library (libingot_cuda.so) or run with device cpu");
}

std::tuple<at::Tensor, at::Tensor> CallForward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                               double scale, const OptionalTensor& visible_end,
                                               std::optional<int64_t> q_offset, const OptionalTensor& positions,
                                               const OptionalTensor& block_table, const OptionalTensor& sequences,
                                               const OptionalTensor& sinks, int64_t window, double soft_cap,
                                               const OptionalPlans& plans) {
  return ForwardOperator().typed<TreeAttentionForwardSignature>().call(
      q, k, v, scale, visible_end, q_offset, positions, block_table, sequences, sinks, window, soft_cap, plans);
}

// Marks results as functions of `inputs`, and fails if a caller asks for their gradient. Otherwise autograd would treat
// results without a formula as constant.
class NoGradient : public torch::autograd::Function<NoGradient> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, at::TensorList results,
                                                at::TensorList /*inputs*/, const std::string& why) {
    context->saved_data["why"] = why;
    return results.vec();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& /*grads*/) {
    TORCH_CHECK(false, context->saved_data["why"].toStringRef());
    return {};
  }
};

class TreeAttentionFunction : public torch::autograd::Function<TreeAttentionFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, double scale, const OptionalTensor& visible_end,
                            std::optional<int64_t> q_offset, const OptionalTensor& positions,
                            const OptionalTensor& block_table, const OptionalTensor& sequences,
                            const OptionalTensor& sinks, int64_t window, double soft_cap, const OptionalPlans& plans) {
    at::AutoDispatchBelowADInplaceOrView guard;
    auto [out, lse] = CallForward(q, k, v, scale, visible_end, q_offset, positions, block_table, sequences, sinks,
                                  window, soft_cap, plans);
    context->save_for_backward({q, k, v, out, lse, visible_end.value_or(at::Tensor()), positions.value_or(at::Tensor()),
                                sinks.value_or(at::Tensor()), block_table.value_or(at::Tensor()),
                                sequences.value_or(at::Tensor())});
    context->saved_data["scale"] = scale;
    context->saved_data["q_offset"] = q_offset;
    context->saved_data["window"] = window;
    context->saved_data["soft_cap"] = soft_cap;
    context->saved_data["plans"] = plans;
    return out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    torch::autograd::variable_list once = Differentiate(*context, grads[0], saved);
    if (at::GradMode::is_enabled()) {  // create_graph requests it
      once = NoGradient::apply(once, at::TensorList({grads[0], saved[0], saved[1], saved[2]}),
                               "tree attention has no second derivative");
    }
    torch::autograd::variable_list result(13);
    for (size_t i = 0; i < 3; ++i) result[i] = once[i];
    if (saved[7].defined()) result[9] = once[3];
    return result;
  }

 private:
  // Returns the gradients of q, k, v, and the sinks.
  static torch::autograd::variable_list Differentiate(torch::autograd::AutogradContext& context, const at::Tensor& grad,
                                                      const torch::autograd::variable_list& saved) {
    at::AutoDispatchBelowADInplaceOrView guard;
    auto [grad_q, grad_k, grad_v, grad_sinks] = BackwardOperator().typed<TreeAttentionBackwardSignature>().call(
        grad, saved[0], saved[1], saved[2], saved[3], saved[4], context.saved_data["scale"].toDouble(),
        Optional(saved[5]), context.saved_data["q_offset"].toOptional<int64_t>(), Optional(saved[6]),
        Optional(saved[8]), Optional(saved[9]), Optional(saved[7]), context.saved_data["window"].toInt(),
        context.saved_data["soft_cap"].toDouble(), context.saved_data["plans"].to<OptionalPlans>());
    return {grad_q, grad_k, grad_v, grad_sinks};
  }
};

bool AnyRequiresGrad(std::initializer_list<at::Tensor> tensors) {
  return at::GradMode::is_enabled() && std::any_of(tensors.begin(), tensors.end(), [](const at::Tensor& tensor) {
           return tensor.defined() && tensor.requires_grad();
         });
}

std::tuple<at::Tensor, at::Tensor> ForwardAutograd(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                   double scale, const OptionalTensor& visible_end,
                                                   std::optional<int64_t> q_offset, const OptionalTensor& positions,
                                                   const OptionalTensor& block_table, const OptionalTensor& sequences,
                                                   const OptionalTensor& sinks, int64_t window, double soft_cap,
                                                   const OptionalPlans& plans) {
  const auto [out, lse] = [&] {
    at::AutoDispatchBelowADInplaceOrView guard;
    return CallForward(q, k, v, scale, visible_end, q_offset, positions, block_table, sequences, sinks, window,
                       soft_cap, plans);
  }();
  const at::Tensor given = sinks.value_or(at::Tensor());
  if (!AnyRequiresGrad({q, k, v, given})) return {out, lse};
  const auto once = NoGradient::apply(
      at::TensorList({out, lse}), at::TensorList({q, k, v}),
      "tree_attention_forward is not differentiable: call tree_attention, or tree_attention_backward with its outputs");
  return {once[0], once[1]};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> BackwardAutograd(
    const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& out,
    const at::Tensor& lse, double scale, const OptionalTensor& visible_end, std::optional<int64_t> q_offset,
    const OptionalTensor& positions, const OptionalTensor& block_table, const OptionalTensor& sequences,
    const OptionalTensor& sinks, int64_t window, double soft_cap, const OptionalPlans& plans) {
  const auto [grad_q, grad_k, grad_v, grad_sinks] = [&] {
    at::AutoDispatchBelowADInplaceOrView guard;
    return BackwardOperator().typed<TreeAttentionBackwardSignature>().call(grad, q, k, v, out, lse, scale, visible_end,
                                                                           q_offset, positions, block_table, sequences,
                                                                           sinks, window, soft_cap, plans);
  }();
  if (!AnyRequiresGrad({grad, q, k, v, out, lse})) return {grad_q, grad_k, grad_v, grad_sinks};
  const auto once = NoGradient::apply(at::TensorList({grad_q, grad_k, grad_v, grad_sinks}),
                                      at::TensorList({grad, q, k, v}), "tree attention has no second derivative");
  return {once[0], once[1], once[2], once[3]};
}

at::Tensor Autograd(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                    const OptionalTensor& visible_end, std::optional<int64_t> q_offset, const OptionalTensor& positions,
                    const OptionalTensor& block_table, const OptionalTensor& sequences, const OptionalTensor& sinks,
                    int64_t window, double soft_cap, const OptionalPlans& plans) {
  return TreeAttentionFunction::apply(q, k, v, scale, visible_end, q_offset, positions, block_table, sequences, sinks,
                                      window, soft_cap, plans);
}

at::Tensor Plain(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                 const OptionalTensor& visible_end, std::optional<int64_t> q_offset, const OptionalTensor& positions,
                 const OptionalTensor& block_table, const OptionalTensor& sequences, const OptionalTensor& sinks,
                 int64_t window, double soft_cap, const OptionalPlans& plans) {
  return std::get<0>(CallForward(q, k, v, scale, visible_end, q_offset, positions, block_table, sequences, sinks,
                                 window, soft_cap, plans));
}

// Returns the shapes, for tracing and fake tensors.
std::tuple<at::Tensor, at::Tensor> ForwardMeta(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double,
                                               const OptionalTensor&, std::optional<int64_t>, const OptionalTensor&,
                                               const OptionalTensor& block_table, const OptionalTensor&,
                                               const OptionalTensor&, int64_t, double, const OptionalPlans&) {
  TORCH_CHECK(q.dim() == 3 && k.dim() == (block_table.has_value() ? 4 : 3) && v.dim() == k.dim(),
              "tree attention takes q [rows, heads, head_dim] and k, v [keys, kv_heads, head_dim] or, with a block "
              "table, [num_pages, page_size, kv_heads, head_dim]");
  return {at::empty_symint(q.sym_sizes(), q.options()),
          at::empty_symint({q.sym_size(0), q.sym_size(1)}, q.options().dtype(AccumulatorType(q)))};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> BackwardMeta(
    const at::Tensor&, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor&,
    const at::Tensor&, double, const OptionalTensor&, std::optional<int64_t>, const OptionalTensor&,
    const OptionalTensor&, const OptionalTensor&, const OptionalTensor& sinks, int64_t, double, const OptionalPlans&) {
  const bool given = sinks.has_value();
  return {at::empty_symint(q.sym_sizes(), q.options()), at::empty_symint(k.sym_sizes(), k.options()),
          at::empty_symint(v.sym_sizes(), v.options()),
          at::empty_symint({given ? q.sym_size(1) : c10::SymInt(0)}, given ? sinks->options() : q.options())};
}

TORCH_LIBRARY(ingot, m) {
  m.class_<AttentionPlans>("AttentionPlans").def(torch::init<>());
  const std::string last = "int window=0, float soft_cap=0, __torch__.torch.classes.ingot.AttentionPlans? plans=None";
  const std::string given =
      "Tensor? visible_end=None, int? q_offset=None, Tensor? positions=None, Tensor? block_table=None, "
      "Tensor? sequences=None, Tensor? sinks=None, " +
      last;
  const std::string arguments = "Tensor q, Tensor k, Tensor v, float scale, *, " + given;
  m.def(("tree_attention(" + arguments + ") -> Tensor").c_str());
  m.def(("tree_attention_forward(" + arguments + ") -> (Tensor out, Tensor lse)").c_str());
  m.def(("tree_attention_backward(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, float scale, *, " +
         given + ") -> (Tensor grad_q, Tensor grad_k, Tensor grad_v, Tensor grad_sinks)")
            .c_str());
  m.def(("tree_attention_backward_sum(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, float scale, "
         "Tensor(a!) k_sum, Tensor(b!) v_sum, *, Tensor? visible_end=None, int? q_offset=None, Tensor? positions=None, "
         "Tensor? sinks=None, " +
         last + ") -> (Tensor grad_q, Tensor grad_sinks)")
            .c_str());
}
TORCH_LIBRARY_IMPL(ingot, Autograd, m) {
  m.impl("tree_attention", Autograd);
  m.impl("tree_attention_forward", ForwardAutograd);
  m.impl("tree_attention_backward", BackwardAutograd);
}
TORCH_LIBRARY_IMPL(ingot, CompositeExplicitAutograd, m) { m.impl("tree_attention", Plain); }
TORCH_LIBRARY_IMPL(ingot, CPU, m) {
  m.impl("tree_attention_forward", TreeAttentionForwardCpu);
  m.impl("tree_attention_backward", TreeAttentionBackwardCpu);
}
TORCH_LIBRARY_IMPL(ingot, Meta, m) {
  m.impl("tree_attention_forward", ForwardMeta);
  m.impl("tree_attention_backward", BackwardMeta);
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> TreeAttentionForward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                        const TreeAttentionOptions& o) {
  CheckDevice(q);
  at::AutoDispatchBelowADInplaceOrView guard;
  return CallForward(q, k, v, o.scale, Optional(o.visible_end), o.q_offset, Optional(o.positions),
                     Optional(o.block_table), Optional(o.sequences), Optional(o.sinks), o.window, o.soft_cap,
                     Optional(o.plans));
}

at::Tensor TreeAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const TreeAttentionOptions& o) {
  const bool differentiate =
      at::GradMode::is_enabled() &&
      (q.requires_grad() || k.requires_grad() || v.requires_grad() || (o.sinks.defined() && o.sinks.requires_grad()));
  if (!differentiate) return std::get<0>(TreeAttentionForward(q, k, v, o));
  CheckDevice(q);
  return TreeAttentionFunction::apply(q, k, v, o.scale, Optional(o.visible_end), o.q_offset, Optional(o.positions),
                                      Optional(o.block_table), Optional(o.sequences), Optional(o.sinks), o.window,
                                      o.soft_cap, Optional(o.plans));
}

at::Tensor TreeAttentionBackward(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const at::Tensor& out, const at::Tensor& lse, const TreeAttentionOptions& o,
                                 const at::Tensor& k_sum, const at::Tensor& v_sum, at::Tensor* grad_sinks) {
  TORCH_CHECK(k_sum.defined() && v_sum.defined() && q.dim() == 3 && k.dim() == 3 && k.size(0) >= q.size(0) &&
                  !o.block_table.defined() && !o.sequences.defined(),
              "tree attention backward in pieces takes q [rows, heads, head_dim], k and v with at least as many rows, "
              "and sums, but no pages or sequences");
  const int64_t q_offset = k.size(0) - q.size(0);
  if (q.is_cpu()) {
    return TreeAttentionBackwardSumCpu(grad, q, k, v, out, lse, o, q_offset, k_sum, v_sum, grad_sinks);
  }
  CheckDevice(q);
  static const c10::OperatorHandle op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ingot::tree_attention_backward_sum", "");
  at::AutoDispatchBelowADInplaceOrView guard;
  const auto [grad_q, by_sinks] = op.typed<TreeAttentionBackwardSumSignature>().call(
      grad, q, k, v, out, lse, o.scale, k_sum, v_sum, Optional(o.visible_end), q_offset, Optional(o.positions),
      Optional(o.sinks), o.window, o.soft_cap, Optional(o.plans));
  if (grad_sinks != nullptr) *grad_sinks = by_sinks;
  return grad_q;
}

namespace {

TreeAttentionOptions Stream(const at::Tensor& visible_end, double scale) {
  TreeAttentionOptions options;
  options.scale = scale;
  options.visible_end = visible_end;
  options.q_offset = 0;
  return options;
}

void CheckSquare(const at::Tensor& q, const at::Tensor& k) {
  TORCH_CHECK(q.dim() == 3 && k.dim() == 3 && q.sym_size(0) == k.sym_size(0), "tree attention over one stream: q ",
              q.sym_sizes(), " and k ", k.sym_sizes(), " have different numbers of rows");
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> TreeAttentionForward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                        const at::Tensor& visible_end, double scale) {
  CheckSquare(q, k);
  return TreeAttentionForward(q, k, v, Stream(visible_end, scale));
}

at::Tensor TreeAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& visible_end,
                         double scale) {
  CheckSquare(q, k);
  return TreeAttention(q, k, v, Stream(visible_end, scale));
}

}  // namespace ingot::kernels
