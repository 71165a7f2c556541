#include "kernels/torch/tree_attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <vector>

namespace ingot::kernels {
namespace {

AttentionShape ShapeOf(const at::Tensor& q, const at::Tensor& k, double scale) {
  return {q.size(1), k.size(1), q.size(2), scale};
}

void CheckStream(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& visible_end) {
  TORCH_CHECK(q.dim() == 3 && k.dim() == 3 && v.sizes() == k.sizes(),
              "tree attention takes q [N, heads, head_dim] and k, v [N, kv_heads, head_dim], got ", q.sizes(), ", ",
              k.sizes(), ", ", v.sizes());
  TORCH_CHECK(q.size(0) == k.size(0) && q.size(2) == k.size(2), "tree attention: q ", q.sizes(), " and k ", k.sizes(),
              " differ in rows or head_dim");
  TORCH_CHECK(k.size(1) > 0 && q.size(1) % k.size(1) == 0, "tree attention: ", q.size(1), " heads are no multiple of ",
              k.size(1), " kv heads");
  TORCH_CHECK(q.scalar_type() == k.scalar_type() && q.scalar_type() == v.scalar_type(),
              "tree attention: q, k and v differ in dtype: ", q.scalar_type(), ", ", k.scalar_type(), ", ",
              v.scalar_type());
  if (visible_end.defined()) {
    TORCH_CHECK(visible_end.dim() == 1 && visible_end.size(0) == q.size(0) && visible_end.scalar_type() == at::kInt,
                "tree attention: visible_end must be int32 [", q.size(0), "], got ", visible_end.scalar_type(), " ",
                visible_end.sizes());
  }
}

const int32_t* Pointer(const at::Tensor& visible_end) {
  return visible_end.defined() ? visible_end.const_data_ptr<int32_t>() : nullptr;
}

// Half precisions are computed in fp32.
at::Tensor Computable(const at::Tensor& t) {
  const bool half = t.scalar_type() == at::kBFloat16 || t.scalar_type() == at::kHalf;
  return (half ? t.to(at::kFloat) : t).contiguous();
}

template <typename F>
void Dispatch(const at::Tensor& t, F&& f) {
  if (t.scalar_type() == at::kFloat) return f(float{});
  if (t.scalar_type() == at::kDouble) return f(double{});
  TORCH_CHECK(false, "tree attention on the CPU takes float32 or float64, got ", t.scalar_type());
}

std::tuple<at::Tensor, at::Tensor> ForwardCpu(const at::Tensor& q_in, const at::Tensor& k_in, const at::Tensor& v_in,
                                              const std::optional<at::Tensor>& visible_end_in, double scale) {
  const at::Tensor visible_end = visible_end_in.has_value() ? visible_end_in->contiguous() : at::Tensor();
  CheckStream(q_in, k_in, v_in, visible_end);
  const at::Tensor q = Computable(q_in), k = Computable(k_in), v = Computable(v_in);
  at::Tensor out = at::empty_like(q), lse = at::empty({q.size(0), q.size(1)}, q.options());
  AttentionSequence sequence;
  sequence.q_count = sequence.key_count = q.size(0);
  sequence.visible_end = Pointer(visible_end);
  Dispatch(q, [&](auto zero) {
    using T = decltype(zero);
    AttentionForwardArgs<T> args;
    args.q = q.const_data_ptr<T>();
    args.k = k.const_data_ptr<T>();
    args.v = v.const_data_ptr<T>();
    args.out = out.mutable_data_ptr<T>();
    args.lse = lse.mutable_data_ptr<T>();
    AttentionForward<T>(ShapeOf(q, k, scale), {&sequence, 1}, args, TorchParallelFor());
  });
  return {out.to(q_in.scalar_type()), lse};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> BackwardCpu(const at::Tensor& grad_in, const at::Tensor& q_in,
                                                           const at::Tensor& k_in, const at::Tensor& v_in,
                                                           const at::Tensor& out_in, const at::Tensor& lse_in,
                                                           const std::optional<at::Tensor>& visible_end_in,
                                                           double scale) {
  const at::Tensor visible_end = visible_end_in.has_value() ? visible_end_in->contiguous() : at::Tensor();
  CheckStream(q_in, k_in, v_in, visible_end);
  const at::Tensor q = Computable(q_in), k = Computable(k_in), v = Computable(v_in), out = Computable(out_in);
  const at::Tensor grad = Computable(grad_in), lse = lse_in.contiguous();
  TORCH_CHECK(grad.sizes() == q.sizes() && out.sizes() == q.sizes() && grad.scalar_type() == q.scalar_type() &&
                  out.scalar_type() == q.scalar_type() && lse.scalar_type() == q.scalar_type() && lse.dim() == 2 &&
                  lse.size(0) == q.size(0) && lse.size(1) == q.size(1),
              "tree attention backward: grad, out or log-sum-exp do not fit q ", q.sizes());
  at::Tensor grad_q = at::empty_like(q), grad_k = at::empty_like(k), grad_v = at::empty_like(v);
  Dispatch(q, [&](auto zero) {
    using T = decltype(zero);
    AttentionBackwardArgs<T> args;
    args.rows = args.keys = q.size(0);
    args.visible_end = Pointer(visible_end);
    args.q = q.const_data_ptr<T>();
    args.k = k.const_data_ptr<T>();
    args.v = v.const_data_ptr<T>();
    args.out = out.const_data_ptr<T>();
    args.lse = lse.const_data_ptr<T>();
    args.grad_out = grad.const_data_ptr<T>();
    args.grad_q = grad_q.mutable_data_ptr<T>();
    args.grad_k = grad_k.mutable_data_ptr<T>();
    args.grad_v = grad_v.mutable_data_ptr<T>();
    AttentionBackward<T>(ShapeOf(q, k, scale), args, TorchParallelFor());
  });
  const at::ScalarType type = q_in.scalar_type();
  return {grad_q.to(type), grad_k.to(type), grad_v.to(type)};
}

std::optional<at::Tensor> Optional(const at::Tensor& t) {
  return t.defined() ? std::optional<at::Tensor>(t) : std::nullopt;
}

// The dispatcher's own message names dozens of keys; this one says what is missing.
void CheckDevice(const c10::OperatorHandle& op, const at::Tensor& q) {
  TORCH_CHECK(op.hasKernelForDispatchKey(c10::computeDispatchKey(q.scalar_type(), q.layout(), q.device())),
              "tree attention has no kernel for device ", q.device(),
              ": load the device library (libingot_cuda.so) or run with device cpu");
}

const c10::OperatorHandle& Operator(const char* name) {
  static const c10::OperatorHandle forward =
      c10::Dispatcher::singleton().findSchemaOrThrow("ingot::tree_attention_forward", "");
  static const c10::OperatorHandle backward =
      c10::Dispatcher::singleton().findSchemaOrThrow("ingot::tree_attention_backward", "");
  return std::string_view(name) == "forward" ? forward : backward;
}

class TreeAttentionFunction : public torch::autograd::Function<TreeAttentionFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const std::optional<at::Tensor>& visible_end_in, double scale) {
    const at::Tensor visible_end = visible_end_in.value_or(at::Tensor());
    auto [out, lse] = TreeAttentionForward(q, k, v, visible_end, scale);
    context->save_for_backward({q, k, v, visible_end, out, lse});
    context->saved_data["scale"] = scale;
    return out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    using Signature = std::tuple<at::Tensor, at::Tensor, at::Tensor>(
        const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
        const at::Tensor&, const std::optional<at::Tensor>&, double);
    auto [grad_q, grad_k, grad_v] = Operator("backward")
                                        .typed<Signature>()
                                        .call(grads[0], saved[0], saved[1], saved[2], saved[4], saved[5],
                                              Optional(saved[3]), context->saved_data["scale"].toDouble());
    return {grad_q, grad_k, grad_v, at::Tensor(), at::Tensor()};
  }
};

at::Tensor TreeAttentionOp(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const std::optional<at::Tensor>& visible_end, double scale) {
  return TreeAttentionFunction::apply(q, k, v, visible_end, scale);
}

TORCH_LIBRARY(ingot, m) {
  m.def("tree_attention(Tensor q, Tensor k, Tensor v, Tensor? visible_end, float scale) -> Tensor");
  m.def(
      "tree_attention_forward(Tensor q, Tensor k, Tensor v, Tensor? visible_end, float scale) -> (Tensor out, Tensor "
      "lse)");
  m.def(
      "tree_attention_backward(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, Tensor? visible_end, "
      "float scale) -> (Tensor grad_q, Tensor grad_k, Tensor grad_v)");
}
TORCH_LIBRARY_IMPL(ingot, CompositeImplicitAutograd, m) { m.impl("tree_attention", TreeAttentionOp); }
TORCH_LIBRARY_IMPL(ingot, CPU, m) {
  m.impl("tree_attention_forward", ForwardCpu);
  m.impl("tree_attention_backward", BackwardCpu);
}

}  // namespace

ParallelFor TorchParallelFor() {
  return [](int64_t count, const std::function<void(int64_t, int64_t)>& body) { at::parallel_for(0, count, 1, body); };
}

at::Tensor TreeAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& visible_end,
                         double scale) {
  if (!at::GradMode::is_enabled() || !(q.requires_grad() || k.requires_grad() || v.requires_grad())) {
    return std::get<0>(TreeAttentionForward(q, k, v, visible_end, scale));
  }
  return TreeAttentionFunction::apply(q, k, v, Optional(visible_end), scale);
}

std::tuple<at::Tensor, at::Tensor> TreeAttentionForward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                        const at::Tensor& visible_end, double scale) {
  CheckStream(q, k, v, visible_end);
  CheckDevice(Operator("forward"), q);
  at::NoGradGuard no_grad;
  using Signature = std::tuple<at::Tensor, at::Tensor>(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                                       const std::optional<at::Tensor>&, double);
  return Operator("forward").typed<Signature>().call(q, k, v, Optional(visible_end), scale);
}

namespace {

void CheckPaged(const at::Tensor& q, const at::Tensor& k_pages, const at::Tensor& v_pages,
                std::span<const AttentionSequence> sequences, const at::Tensor& out) {
  for (const at::Tensor* t : {&q, &k_pages, &v_pages, &out}) {
    TORCH_CHECK(t->device().is_cpu(), "paged tree attention has no kernel for device ", t->device(),
                ": run with device cpu");
    TORCH_CHECK(t->scalar_type() == q.scalar_type(), "paged tree attention: dtypes differ: ", t->scalar_type(), ", ",
                q.scalar_type());
  }
  TORCH_CHECK(k_pages.dim() == 4 && k_pages.is_contiguous() && v_pages.is_contiguous() &&
                  k_pages.sizes() == v_pages.sizes() && k_pages.size(1) > 0 && k_pages.size(2) > 0,
              "paged tree attention takes contiguous pages [num_pages, page_size, kv_heads, head_dim], got ",
              k_pages.sizes(), ", ", v_pages.sizes());
  TORCH_CHECK(q.dim() == 3 && q.size(2) == k_pages.size(3) && q.size(1) % k_pages.size(2) == 0 && q.stride(2) == 1 &&
                  q.stride(1) == q.size(2),
              "paged tree attention: q ", q.sizes(), " does not fit pages ", k_pages.sizes());
  TORCH_CHECK(out.sizes() == q.sizes() && out.is_contiguous(), "paged tree attention: out must be contiguous ",
              q.sizes(), ", got ", out.sizes());
  const int64_t pages = k_pages.size(0), page_size = k_pages.size(1);
  for (size_t i = 0; i < sequences.size(); ++i) {
    const AttentionSequence& s = sequences[i];
    TORCH_CHECK(s.q_begin >= 0 && s.q_count >= 0 && s.q_begin + s.q_count <= q.size(0) && s.q_offset >= 0 &&
                    s.q_offset + s.q_count <= s.key_count,
                "paged tree attention: sequence ", i, " (queries ", s.q_begin, "+", s.q_count, " at ", s.q_offset,
                " of ", s.key_count, " keys) is out of range");
    TORCH_CHECK(s.block_table != nullptr || (s.key_begin >= 0 && s.key_begin + s.key_count <= pages * page_size),
                "paged tree attention: sequence ", i, " has no block table and its keys are out of range");
    const int64_t used = s.block_table == nullptr ? 0 : (s.key_count + page_size - 1) / page_size;
    for (int64_t p = 0; p < used; ++p) {
      TORCH_CHECK(s.block_table[p] >= 0 && s.block_table[p] < pages, "paged tree attention: sequence ", i, " page ", p,
                  " is ", s.block_table[p], " of ", pages);
    }
  }
}

}  // namespace

void PagedTreeAttention(const at::Tensor& q, const at::Tensor& k_pages, const at::Tensor& v_pages,
                        std::span<const AttentionSequence> sequences, double scale, const at::Tensor& out) {
  CheckPaged(q, k_pages, v_pages, sequences, out);
  Dispatch(q, [&](auto zero) {
    using T = decltype(zero);
    AttentionForwardArgs<T> args;
    args.q = q.const_data_ptr<T>();
    args.k = k_pages.const_data_ptr<T>();
    args.v = v_pages.const_data_ptr<T>();
    args.out = out.mutable_data_ptr<T>();
    args.page_size = k_pages.size(1);
    args.q_row_stride = q.stride(0);
    AttentionForward<T>({q.size(1), k_pages.size(2), q.size(2), scale}, sequences, args, TorchParallelFor());
  });
}

}  // namespace ingot::kernels
