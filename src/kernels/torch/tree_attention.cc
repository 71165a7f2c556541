// Implements the operators' CPU kernels: argument checks, then kernels/attention/attention.h.
#include "kernels/torch/tree_attention.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "kernels/torch/threads.h"
#include "kernels/torch/tree_attention_batch.h"
#include "kernels/torch/tree_attention_checks.h"
#include "kernels/torch/tree_attention_ops.h"
#include "kernels/torch/typed.h"

namespace ingot::kernels {
namespace {

at::Tensor OnCpu(const char* name, const std::optional<at::Tensor>& t, at::ScalarType type) {
  if (!t.has_value() || !t->defined()) return {};
  TORCH_CHECK(t->device().is_cpu() && t->scalar_type() == type, "tree attention: ", name, " must be ", type,
              " on the CPU, got ", t->scalar_type(), " on ", t->device());
  return t->contiguous();
}

}  // namespace

// fp16 inputs are computed in fp32.
at::Tensor Computable(const at::Tensor& t) {
  return (t.scalar_type() == at::kHalf ? t.to(at::kFloat) : t).contiguous();
}

void CheckNumbers(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale, int64_t window,
                  double soft_cap, const at::Tensor& sinks) {
  const int64_t dim = k.dim();
  TORCH_CHECK(q.dim() == 3 && (dim == 3 || dim == 4) && v.sizes() == k.sizes() && q.size(2) == k.size(dim - 1),
              "tree attention takes q [rows, heads, head_dim] and k, v [keys, kv_heads, head_dim] or [num_pages, "
              "page_size, kv_heads, head_dim], got ",
              q.sizes(), ", ", k.sizes(), ", ", v.sizes());
  TORCH_CHECK(k.size(dim - 2) > 0 && q.size(1) % k.size(dim - 2) == 0, "tree attention: ", q.size(1),
              " heads are not a multiple of ", k.size(dim - 2), " kv heads");
  TORCH_CHECK(q.scalar_type() == k.scalar_type() && q.scalar_type() == v.scalar_type(),
              "tree attention: q, k and v differ in dtype: ", q.scalar_type(), ", ", k.scalar_type(), ", ",
              v.scalar_type());
  TORCH_CHECK(k.device() == q.device() && v.device() == q.device(),
              "tree attention: q, k and v are on different devices: ", q.device(), ", ", k.device(), ", ", v.device());
  TORCH_CHECK(std::isfinite(scale), "tree attention: the scale is ", scale);
  TORCH_CHECK(window >= 0, "tree attention: the window is ", window, "; 0 = none");
  TORCH_CHECK(std::isfinite(soft_cap) && soft_cap >= 0, "tree attention: the soft cap is ", soft_cap, "; 0 = none");
  if (sinks.defined()) {
    TORCH_CHECK(
        sinks.dim() == 1 && sinks.size(0) == q.size(1) && sinks.is_floating_point() && sinks.device() == q.device(),
        "tree attention: sinks must be floating point [", q.size(1), "] on ", q.device(), ", got ", sinks.scalar_type(),
        " ", sinks.sizes(), " on ", sinks.device());
  }
}

namespace {

// Checks the runs of sequence i against the `keys` rows of k and v.
void CheckRuns(const AttentionSequence& s, size_t i, int64_t keys) {
  TORCH_CHECK(s.key_run_count > 0 && s.key_runs[0].key == 0, "tree attention: the runs of sequence ", i,
              " do not begin at its key 0");
  for (int64_t r = 0; r < s.key_run_count; ++r) {
    const KeyRun& run = s.key_runs[r];
    const int64_t end = r + 1 < s.key_run_count ? s.key_runs[r + 1].key : s.key_count;
    TORCH_CHECK(run.key < end && run.row >= 0 && run.row + (end - run.key) <= keys, "tree attention: run ", r,
                " of sequence ", i, " (keys ", run.key, " to ", end, " at row ", run.row, " of ", keys,
                ") is out of range or out of order");
  }
}

// Checks `sequences` against the memory to which they refer. pages 0 = no pages. keys and rows are the sizes of k and
// q.
void CheckSequences(std::span<const AttentionSequence> sequences, int64_t rows, int64_t keys, int64_t page_size,
                    int64_t pages) {
  for (size_t i = 0; i < sequences.size(); ++i) {
    const AttentionSequence& s = sequences[i];
    const int64_t limit = std::numeric_limits<int32_t>::max();
    TORCH_CHECK(s.q_begin >= 0 && s.q_count >= 0 && s.q_begin <= rows && s.q_count <= rows - s.q_begin &&
                    s.q_offset >= 0 && s.key_count >= 0 && s.key_count <= limit && s.q_offset <= s.key_count &&
                    s.q_count <= s.key_count - s.q_offset,
                "tree attention: sequence ", i, " (queries ", s.q_begin, "+", s.q_count, " of ", rows, " rows, at ",
                s.q_offset, " of ", s.key_count, " keys) is out of range");
    if (s.key_runs != nullptr) {
      TORCH_CHECK(s.block_table == nullptr && pages == 0, "tree attention: sequence ", i, " has runs and pages");
      CheckRuns(s, i, keys);
      continue;
    }
    if (s.block_table == nullptr) {
      TORCH_CHECK(s.key_begin >= 0 && s.key_begin <= keys && s.key_count <= keys - s.key_begin,
                  "tree attention: sequence ", i, " has no block table and its keys ", s.key_begin, "+", s.key_count,
                  " are out of range of ", keys);
      continue;
    }
    const int64_t used = (s.key_count + page_size - 1) / page_size;
    for (int64_t p = 0; p < used; ++p) {
      TORCH_CHECK(s.block_table[p] >= 0 && s.block_table[p] < pages, "tree attention: sequence ", i, " page ", p,
                  " is ", s.block_table[p], " of ", pages);
    }
  }
}

// A query must not belong to two sequences, because their results would race.
void CheckDisjoint(std::span<const AttentionSequence> sequences) {
  std::vector<std::pair<int64_t, int64_t>> rows;
  for (const AttentionSequence& s : sequences) {
    if (s.q_count > 0) rows.emplace_back(s.q_begin, s.q_begin + s.q_count);
  }
  std::sort(rows.begin(), rows.end());
  for (size_t i = 1; i < rows.size(); ++i) {
    TORCH_CHECK(rows[i].first >= rows[i - 1].second, "tree attention: query row ", rows[i].first,
                " belongs to two sequences");
  }
}

// Provides the rows of an integer array with one row per sequence.
class PerSequence {
 public:
  PerSequence(const char* name, at::Tensor t, int64_t sequences) : name_(name), t_(std::move(t)) {
    if (!t_.defined()) return;
    TORCH_CHECK((t_.dim() == 1 && sequences == 1) || (t_.dim() == 2 && t_.size(0) == sequences),
                "tree attention: ", name, " must be [", sequences, ", n] (or [n] for one sequence), got ", t_.sizes());
  }
  // Returns row i, which must have `count` entries.
  const int32_t* Row(int64_t i, int64_t count) const {
    if (!t_.defined()) return nullptr;
    const int64_t width = t_.size(-1);
    TORCH_CHECK(count <= width, "tree attention: sequence ", i, " needs ", count, " entries of ", name_, ", but has ",
                width);
    return t_.const_data_ptr<int32_t>() + i * width;
  }

 private:
  const char* name_;
  at::Tensor t_;
};

}  // namespace

Batch MakeBatch(const at::Tensor& q, const at::Tensor& k, const OptionalTensor& visible_end,
                std::optional<int64_t> q_offset, const OptionalTensor& positions, const OptionalTensor& block_table,
                const OptionalTensor& sequences) {
  Batch batch{OnCpu("visible_end", visible_end, at::kInt),
              OnCpu("positions", positions, at::kInt),
              OnCpu("block_table", block_table, at::kInt),
              OnCpu("sequences", sequences, at::kLong),
              {}};
  const bool paged = batch.block_table.defined();
  TORCH_CHECK(
      paged == (k.dim() == 4),
      "tree attention: pages [num_pages, page_size, kv_heads, head_dim] and a block table go together, but k is ",
      k.sizes());
  TORCH_CHECK(!paged || k.size(1) > 0, "tree attention: empty pages ", k.sizes());
  const at::Tensor& table = batch.table;
  TORCH_CHECK(!table.defined() || (table.dim() == 2 && table.size(1) == 5 && !q_offset.has_value()),
              "tree attention: sequences must be int64 [sequences, 5], and q_offset must not be set");
  const int64_t count = table.defined() ? table.size(0) : 1, rows = q.size(0);
  const PerSequence ends("visible_end", batch.visible_end, count), depths("positions", batch.positions, count),
      pages("block_table", batch.block_table, count);
  for (int64_t i = 0; i < count; ++i) {
    AttentionSequence& s = batch.sequences.emplace_back();
    if (table.defined()) {
      const int64_t* fields = table.const_data_ptr<int64_t>() + i * 5;
      s.q_begin = fields[0];
      s.q_count = fields[1];
      s.q_offset = fields[2];
      s.key_count = fields[3];
      s.key_begin = fields[4];
    } else {
      s.q_count = rows;
      s.key_count = paged ? q_offset.value_or(0) + rows : k.size(0);
      s.q_offset = q_offset.value_or(s.key_count - rows);
    }
    TORCH_CHECK(s.key_count >= 0 && s.key_count <= std::numeric_limits<int32_t>::max(), "tree attention: sequence ", i,
                " has ", s.key_count, " keys");
    s.visible_end = ends.Row(i, s.key_count);
    s.positions = depths.Row(i, s.key_count);
    s.block_table = pages.Row(i, paged ? (s.key_count + k.size(1) - 1) / k.size(1) : 0);
  }
  CheckSequences(batch.sequences, rows, k.size(0), paged ? k.size(1) : 0, paged ? k.size(0) : 0);
  CheckDisjoint(batch.sequences);
  return batch;
}

at::Tensor ComputableSinks(const OptionalTensor& sinks, const at::Tensor& q) {
  return sinks.has_value() && sinks->defined() ? sinks->to(AccumulatorType(q)).contiguous() : at::Tensor();
}

std::tuple<at::Tensor, at::Tensor> MakeResults(const at::Tensor& q, bool every_row) {
  const auto lse = q.options().dtype(AccumulatorType(q));
  if (every_row) return {at::empty_like(q), at::empty({q.size(0), q.size(1)}, lse)};
  return {at::zeros_like(q), at::full({q.size(0), q.size(1)}, -std::numeric_limits<double>::infinity(), lse)};
}

void CheckGradient(const at::Tensor& grad, const at::Tensor& out, const at::Tensor& lse, const at::Tensor& q) {
  TORCH_CHECK(grad.sizes() == q.sizes() && out.sizes() == q.sizes() && grad.scalar_type() == q.scalar_type() &&
                  out.scalar_type() == q.scalar_type() && lse.scalar_type() == AccumulatorType(q) && lse.dim() == 2 &&
                  lse.size(0) == q.size(0) && lse.size(1) == q.size(1) && grad.device() == q.device() &&
                  out.device() == q.device() && lse.device() == q.device(),
              "tree attention backward: grad, out or log-sum-exp do not match q ", q.sizes());
}

namespace {

// Computes out and lse (undefined = not needed) for queries with rows q.stride(0) apart.
void Forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
             std::span<const AttentionSequence> sequences, double scale, int64_t window, double soft_cap,
             const at::Tensor& sinks, const at::Tensor& out, const at::Tensor& lse) {
  ByType(q, [&](auto zero) {
    using T = decltype(zero);
    AttentionForwardArgs<T> args;
    args.q = Read<T>(q);
    args.k = Read<T>(k);
    args.v = Read<T>(v);
    args.sinks = Read<Accumulator<T>>(sinks);
    args.out = Write<T>(out);
    args.lse = Write<Accumulator<T>>(lse);
    args.page_size = k.dim() == 4 ? k.size(1) : 0;
    args.q_row_stride = q.stride(0);
    AttentionForward<T>({q.size(1), k.size(-2), q.size(2), scale, window, soft_cap}, sequences, args,
                        TorchParallelFor());
  });
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> TreeAttentionForwardCpu(
    const at::Tensor& q_in, const at::Tensor& k_in, const at::Tensor& v_in, double scale,
    const OptionalTensor& visible_end, std::optional<int64_t> q_offset, const OptionalTensor& positions,
    const OptionalTensor& block_table, const OptionalTensor& sequences, const OptionalTensor& sinks_in, int64_t window,
    double soft_cap, const OptionalPlans& /*plans*/) {
  CheckNumbers(q_in, k_in, v_in, scale, window, soft_cap, sinks_in.value_or(at::Tensor()));
  const Batch batch = MakeBatch(q_in, k_in, visible_end, q_offset, positions, block_table, sequences);
  const at::Tensor q = Computable(q_in), k = Computable(k_in), v = Computable(v_in);
  const auto [out, lse] = MakeResults(q, !sequences.has_value());
  if (q.numel() > 0) {
    Forward(q, k, v, batch.sequences, scale, window, soft_cap, ComputableSinks(sinks_in, q), out, lse);
  }
  return {out.to(q_in.scalar_type()), lse};
}

namespace {

// Gradients of q, k, v, and the sinks. k and v are undefined if their gradients were added to given sums.
struct Gradients {
  at::Tensor q, k, v, sinks, k_sum, v_sum;
};

template <typename T>
void Backward(const AttentionShape& shape, const AttentionSequence& s, const at::Tensor& q, const at::Tensor& k,
              const at::Tensor& v, const at::Tensor& sinks, const at::Tensor& out, const at::Tensor& lse,
              const at::Tensor& grad, const Gradients& grads) {
  using Acc = Accumulator<T>;
  AttentionBackwardArgs<T> args;
  args.rows = s.q_count;
  args.keys = s.key_count;
  args.q_offset = s.q_offset;
  args.visible_end = s.visible_end;
  args.positions = s.positions;
  args.q = Read<T>(q);
  args.k = Read<T>(k);
  args.v = Read<T>(v);
  args.sinks = Read<Acc>(sinks);
  args.out = Read<T>(out);
  args.lse = Read<Acc>(lse);
  args.grad_out = Read<T>(grad);
  args.grad_q = Write<T>(grads.q);
  args.grad_k = Write<T>(grads.k);
  args.grad_v = Write<T>(grads.v);
  args.grad_sinks = sinks.defined() ? Write<Acc>(grads.sinks) : nullptr;
  args.grad_k_sum = Write<Acc>(grads.k_sum);
  args.grad_v_sum = Write<Acc>(grads.v_sum);
  AttentionBackward<T>(shape, args, TorchParallelFor());
}

}  // namespace

namespace {

// Returns a host tensor with row `of(sequence)` for each sequence, padded to the longest. Undefined if no sequence has
// a row. A sequence without a row gets `fill`.
template <typename Of>
OptionalTensor Rows(std::span<const AttentionSequence> sequences, const std::vector<int64_t>& lengths, Of of,
                    const std::function<int32_t(int64_t)>& fill) {
  const auto given = [&](const AttentionSequence& s) { return of(s) != nullptr; };
  if (std::none_of(sequences.begin(), sequences.end(), given)) return std::nullopt;
  const int64_t width = *std::max_element(lengths.begin(), lengths.end());
  at::Tensor rows = at::zeros({static_cast<int64_t>(sequences.size()), width}, at::kInt);
  int32_t* to = rows.mutable_data_ptr<int32_t>();
  for (size_t i = 0; i < sequences.size(); ++i, to += width) {
    const int32_t* from = of(sequences[i]);
    for (int64_t j = 0; j < lengths[i]; ++j) to[j] = from != nullptr ? from[j] : fill(j);
  }
  return rows;
}

// On other devices, runs the operator's kernel, which takes the host arrays as tensors. Returns out and lse. REQUIRES:
// sequences.
std::tuple<at::Tensor, at::Tensor> ForwardOnDevice(const at::Tensor& q, const at::Tensor& k_pages,
                                                   const at::Tensor& v_pages,
                                                   std::span<const AttentionSequence> sequences, double scale,
                                                   const at::Tensor& sinks, int64_t window, double soft_cap,
                                                   const c10::intrusive_ptr<AttentionPlans>& plans) {
  static const c10::OperatorHandle op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ingot::tree_attention_forward", "");
  TORCH_CHECK(op.hasKernelForDispatchKey(c10::computeDispatchKey(q.scalar_type(), q.layout(), q.device())),
              "paged tree attention has no kernel for device ", q.device(),
              ": load the device library (libingot_cuda.so) or run with device cpu");
  std::vector<int64_t> keys, pages, fields;
  for (const AttentionSequence& s : sequences) {
    TORCH_CHECK(s.block_table != nullptr, "paged tree attention: a sequence without a block table");
    keys.push_back(s.key_count);
    pages.push_back((s.key_count + k_pages.size(1) - 1) / k_pages.size(1));
    fields.insert(fields.end(), {s.q_begin, s.q_count, s.q_offset, s.key_count, s.key_begin});
  }
  using S = const AttentionSequence&;
  const auto ends = Rows(
      sequences, keys, [](S s) { return s.visible_end; }, [](int64_t) { return std::numeric_limits<int32_t>::max(); });
  const auto positions = Rows(
      sequences, keys, [window](S s) { return window > 0 ? s.positions : nullptr; },
      [](int64_t key) { return static_cast<int32_t>(key); });
  const auto tables = Rows(sequences, pages, [](S s) { return s.block_table; }, [](int64_t) { return 0; });
  const at::Tensor table = at::tensor(fields, at::kLong).view({-1, 5});
  at::AutoDispatchBelowADInplaceOrView guard;
  return op.typed<TreeAttentionForwardSignature>().call(
      q, k_pages, v_pages, scale, ends, std::nullopt, positions, tables, table,
      sinks.defined() ? OptionalTensor(sinks) : std::nullopt, window, soft_cap,
      plans.defined() ? OptionalPlans(plans) : std::nullopt);
}

}  // namespace

namespace {

// The rows of a path's keys by depth, as pages of one key each.
std::vector<int32_t> KeyRowsOf(const AttentionSequence& path) {
  std::vector<int32_t> rows;
  rows.reserve(static_cast<size_t>(path.key_count));
  for (int64_t r = 0; r < path.key_run_count; ++r) {
    const KeyRun& run = path.key_runs[r];
    const int64_t end = r + 1 < path.key_run_count ? path.key_runs[r + 1].key : path.key_count;
    for (int64_t key = run.key; key < end; ++key) rows.push_back(static_cast<int32_t>(run.row + key - run.key));
  }
  return rows;
}

// On other devices, each path is a sequence over pages of one key.
std::tuple<at::Tensor, at::Tensor> PathsOnDevice(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                 std::span<const AttentionSequence> paths, double scale,
                                                 const at::Tensor& sinks, int64_t window, double soft_cap,
                                                 const c10::intrusive_ptr<AttentionPlans>& plans) {
  std::vector<std::vector<int32_t>> tables;
  std::vector<AttentionSequence> sequences(paths.begin(), paths.end());
  for (AttentionSequence& s : sequences) {
    if (s.key_runs != nullptr) s.block_table = tables.emplace_back(KeyRowsOf(s)).data();
    s.key_runs = nullptr;
    s.key_run_count = 0;
  }
  const auto paged = [](const at::Tensor& t) { return t.contiguous().unsqueeze(1); };
  return ForwardOnDevice(q, paged(k), paged(v), sequences, scale, sinks, window, soft_cap, plans);
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> PathAttentionForward(const at::Tensor& q_in, const at::Tensor& k_in,
                                                        const at::Tensor& v_in,
                                                        std::span<const AttentionSequence> sequences, double scale,
                                                        const at::Tensor& sinks, int64_t window, double soft_cap,
                                                        const c10::intrusive_ptr<AttentionPlans>& plans) {
  CheckNumbers(q_in, k_in, v_in, scale, window, soft_cap, sinks);
  const at::Tensor q = Computable(q_in), k = Computable(k_in), v = Computable(v_in);
  CheckSequences(sequences, q.size(0), k.size(0), 0, 0);
  int64_t rows = 0;
  for (const AttentionSequence& s : sequences) {
    TORCH_CHECK(s.q_begin == rows, "path attention: a path's queries begin at row ", s.q_begin,
                ", but the previous path's queries end at ", rows);
    rows += s.q_count;
  }
  TORCH_CHECK(rows == q.size(0), "path attention: the paths have ", rows, " queries of ", q.size(0));
  if (!q.is_cpu()) {
    const auto [out, lse] = PathsOnDevice(q, k, v, sequences, scale, sinks, window, soft_cap, plans);
    return {out.to(q_in.scalar_type()), lse};
  }
  const auto [out, lse] = MakeResults(q, true);
  if (q.numel() > 0) Forward(q, k, v, sequences, scale, window, soft_cap, ComputableSinks(sinks, q), out, lse);
  return {out.to(q_in.scalar_type()), lse};
}

namespace {

// If sums are given, adds the key and value gradients to them and leaves `k` and `v` in the result undefined.
Gradients BackwardCpu(const at::Tensor& grad_in, const at::Tensor& q_in, const at::Tensor& k_in, const at::Tensor& v_in,
                      const at::Tensor& out_in, const at::Tensor& lse_in, double scale,
                      const OptionalTensor& visible_end, std::optional<int64_t> q_offset,
                      const OptionalTensor& positions, const OptionalTensor& sinks_in, int64_t window, double soft_cap,
                      const at::Tensor& k_sum, const at::Tensor& v_sum) {
  CheckNumbers(q_in, k_in, v_in, scale, window, soft_cap, sinks_in.value_or(at::Tensor()));
  const Batch batch = MakeBatch(q_in, k_in, visible_end, q_offset, positions, std::nullopt, std::nullopt);
  const at::Tensor q = Computable(q_in), k = Computable(k_in), v = Computable(v_in), out = Computable(out_in);
  const at::Tensor grad = Computable(grad_in), lse = lse_in.contiguous(), sinks = ComputableSinks(sinks_in, q);
  CheckGradient(grad, out, lse, q);
  for (const at::Tensor* sum : {&k_sum, &v_sum}) {
    TORCH_CHECK(sum->defined() == k_sum.defined() &&
                    (!sum->defined() || (sum->sizes() == k.sizes() && sum->is_contiguous() && sum->device().is_cpu() &&
                                         sum->scalar_type() == AccumulatorType(q))),
                "tree attention backward: sums must be dense ", AccumulatorType(q), " ", k.sizes());
  }
  Gradients grads;
  grads.q = at::empty_like(q);
  grads.k_sum = k_sum;
  grads.v_sum = v_sum;
  if (!k_sum.defined()) {
    grads.k = at::empty_like(k);
    grads.v = at::empty_like(v);
  }
  grads.sinks = at::zeros({sinks.defined() ? q.size(1) : 0}, lse.options());
  if (k.numel() > 0) {
    ByType(q, [&](auto zero) {
      Backward<decltype(zero)>({q.size(1), k.size(1), q.size(2), scale, window, soft_cap}, batch.sequences[0], q, k, v,
                               sinks, out, lse, grad, grads);
    });
  }
  const at::ScalarType type = q_in.scalar_type();
  grads.q = grads.q.to(type);
  if (grads.k.defined()) {
    grads.k = grads.k.to(type);
    grads.v = grads.v.to(type);
  }
  grads.sinks = grads.sinks.to(sinks.defined() ? sinks_in->scalar_type() : type);
  return grads;
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> TreeAttentionBackwardCpu(
    const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& out,
    const at::Tensor& lse, double scale, const OptionalTensor& visible_end, std::optional<int64_t> q_offset,
    const OptionalTensor& positions, const OptionalTensor& block_table, const OptionalTensor& sequences,
    const OptionalTensor& sinks, int64_t window, double soft_cap, const OptionalPlans& /*plans*/) {
  if (block_table.has_value() || sequences.has_value()) {
    return BackwardOfBatch(TreeAttentionBackwardCpu, grad, q, k, v, out, lse, scale, visible_end, q_offset, positions,
                           block_table, sequences, sinks, window, soft_cap);
  }
  const Gradients grads =
      BackwardCpu(grad, q, k, v, out, lse, scale, visible_end, q_offset, positions, sinks, window, soft_cap, {}, {});
  return {grads.q, grads.k, grads.v, grads.sinks};
}

at::Tensor TreeAttentionBackwardSumCpu(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k,
                                       const at::Tensor& v, const at::Tensor& out, const at::Tensor& lse,
                                       const TreeAttentionOptions& o, std::optional<int64_t> q_offset,
                                       const at::Tensor& k_sum, const at::Tensor& v_sum, at::Tensor* grad_sinks) {
  const auto given = [](const at::Tensor& t) { return t.defined() ? OptionalTensor(t) : std::nullopt; };
  const Gradients grads = BackwardCpu(grad, q, k, v, out, lse, o.scale, given(o.visible_end), q_offset,
                                      given(o.positions), given(o.sinks), o.window, o.soft_cap, k_sum, v_sum);
  if (grad_sinks != nullptr) *grad_sinks = grads.sinks;
  return grads.q;
}

void PagedTreeAttention(const at::Tensor& q, const at::Tensor& k_pages, const at::Tensor& v_pages,
                        std::span<const AttentionSequence> sequences, double scale, const at::Tensor& out,
                        const at::Tensor& sinks, int64_t window, double soft_cap,
                        const c10::intrusive_ptr<AttentionPlans>& plans) {
  for (const at::Tensor* t : {&q, &k_pages, &v_pages, &out}) {
    TORCH_CHECK(t->device() == q.device(), "paged tree attention: devices differ: ", t->device(), ", ", q.device());
    TORCH_CHECK(t->scalar_type() == q.scalar_type(), "paged tree attention: dtypes differ: ", t->scalar_type(), ", ",
                q.scalar_type());
  }
  TORCH_CHECK(k_pages.dim() == 4 && k_pages.is_contiguous() && v_pages.is_contiguous() && k_pages.size(1) > 0,
              "paged tree attention takes contiguous pages [num_pages, page_size, kv_heads, head_dim], got ",
              k_pages.sizes(), ", ", v_pages.sizes());
  CheckNumbers(q, k_pages, v_pages, scale, window, soft_cap, sinks);
  TORCH_CHECK(q.stride(2) == 1 && q.stride(1) == q.size(2), "paged tree attention: the heads of q ", q.sizes(),
              " are not dense");
  TORCH_CHECK(out.sizes() == q.sizes() && out.is_contiguous(), "paged tree attention: out must be contiguous ",
              q.sizes(), ", got ", out.sizes());
  const int64_t pages = k_pages.size(0), page_size = k_pages.size(1);
  CheckSequences(sequences, q.size(0), pages * page_size, page_size, pages);
  if (!q.is_cpu()) {
    if (sequences.empty()) return;
    const auto result = ForwardOnDevice(q, k_pages, v_pages, sequences, scale, sinks, window, soft_cap, plans);
    return static_cast<void>(out.copy_(std::get<0>(result)));
  }
  Forward(q, k_pages, v_pages, sequences, scale, window, soft_cap, ComputableSinks(sinks, q), out, {});
}

}  // namespace ingot::kernels
