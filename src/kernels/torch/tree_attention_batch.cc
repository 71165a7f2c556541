#include "kernels/torch/tree_attention_batch.h"

#include <ATen/ATen.h>

#include "kernels/torch/tree_attention_checks.h"
#include "kernels/torch/typed.h"

namespace ingot::kernels {
namespace {

// Returns the row in k and v for each key in the sequence, with pages laid end to end.
at::Tensor RowsOf(const AttentionSequence& s, int64_t page_size) {
  at::Tensor rows = at::empty({s.key_count}, at::kLong);
  auto* const row = rows.mutable_data_ptr<int64_t>();
  for (int64_t key = 0; key < s.key_count; ++key) {
    row[key] =
        s.block_table == nullptr ? s.key_begin + key : s.block_table[key / page_size] * page_size + key % page_size;
  }
  return rows;
}

// Returns a tensor over borrowed memory, valid for one call. Null = none.
OptionalTensor Ints(const int32_t* values, int64_t count) {
  if (values == nullptr) return std::nullopt;
  return at::from_blob(const_cast<int32_t*>(values), {count}, at::kInt);
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> BackwardOfBatch(
    const std::function<TreeAttentionBackwardSignature>& stream, const at::Tensor& grad, const at::Tensor& q,
    const at::Tensor& k, const at::Tensor& v, const at::Tensor& out, const at::Tensor& lse, double scale,
    const OptionalTensor& visible_end, std::optional<int64_t> q_offset, const OptionalTensor& positions,
    const OptionalTensor& block_table, const OptionalTensor& sequences, const OptionalTensor& sinks, int64_t window,
    double soft_cap) {
  CheckNumbers(q, k, v, scale, window, soft_cap, sinks.value_or(at::Tensor()));
  CheckGradient(grad, out, lse, q);
  const Batch batch = MakeBatch(q, k, visible_end, q_offset, positions, block_table, sequences);
  const int64_t page_size = k.dim() == 4 ? k.size(1) : 0;
  const at::Tensor keys = k.reshape({-1, k.size(-2), k.size(-1)}), values = v.reshape(keys.sizes());
  const auto sums = q.options().dtype(AccumulatorType(q));
  const at::Tensor grad_q = at::zeros_like(q), grad_k = at::zeros(keys.sizes(), sums),
                   grad_v = at::zeros(keys.sizes(), sums);
  at::Tensor grad_sinks = at::zeros({sinks.has_value() ? q.size(1) : 0}, sums);
  for (const AttentionSequence& s : batch.sequences) {
    if (s.q_count == 0) continue;
    const at::Tensor rows = RowsOf(s, page_size).to(q.device());
    const auto own = [&](const at::Tensor& t) { return t.narrow(0, s.q_begin, s.q_count); };
    const auto [of_q, of_k, of_v, of_sinks] =
        stream(own(grad), own(q), keys.index_select(0, rows), values.index_select(0, rows), own(out), own(lse), scale,
               Ints(s.visible_end, s.key_count), s.q_offset, Ints(s.positions, s.key_count), std::nullopt, std::nullopt,
               sinks, window, soft_cap, std::nullopt);
    own(grad_q).copy_(of_q);
    at::Tensor(grad_k).index_add_(0, rows, of_k.to(sums.dtype()));
    at::Tensor(grad_v).index_add_(0, rows, of_v.to(sums.dtype()));
    grad_sinks += of_sinks.to(sums.dtype());
  }
  const at::ScalarType type = q.scalar_type();
  return {grad_q, grad_k.view(k.sizes()).to(type), grad_v.view(k.sizes()).to(type),
          grad_sinks.to(sinks.has_value() ? sinks->scalar_type() : type)};
}

}  // namespace ingot::kernels
