#include "trainer/forest_pass.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "kernels/torch/tree_attention.h"
#include "kernels/torch/typed.h"
#include "trainer/part_run.h"
#include "tree/cut.h"

namespace ingot::trainer {
namespace {

// Loss entries sorted by the (row, temperature) they are read from. Row u of the logits is packed token rows[u] at
// temperatures[u]; the entries order[first_entry[u]] .. order[first_entry[u + 1]) read from it.
struct HeadPlan {
  std::vector<int64_t> rows;
  std::vector<double> temperatures;
  std::vector<size_t> first_entry;
  std::vector<size_t> order;
};

HeadPlan PlanHead(const tree::PackedForest& forest, std::span<const tree::CallPath> calls) {
  const auto key = [&](size_t entry) {
    const tree::LossEntry& e = forest.entries[entry];
    return std::pair(e.row, calls[static_cast<size_t>(e.call)].temperature);
  };
  HeadPlan plan;
  plan.order.resize(forest.entries.size());
  std::iota(plan.order.begin(), plan.order.end(), size_t{0});
  std::stable_sort(plan.order.begin(), plan.order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  for (size_t i = 0; i < plan.order.size(); ++i) {
    if (i > 0 && key(plan.order[i]) == key(plan.order[i - 1])) continue;
    const auto [row, temperature] = key(plan.order[i]);
    plan.rows.push_back(row);
    plan.temperatures.push_back(temperature);
    plan.first_entry.push_back(i);
  }
  plan.first_entry.push_back(plan.order.size());
  return plan;
}

template <typename T>
at::Tensor ToTensor(const std::vector<T>& values, at::ScalarType stored, const at::TensorOptions& options) {
  return at::from_blob(const_cast<T*>(values.data()), {static_cast<int64_t>(values.size())}, at::dtype(stored))
      .to(options, /*non_blocking=*/false, /*copy=*/true);
}

// The entries of one chunk of rows, in the chunk's order.
struct ChunkEntries {
  std::vector<int64_t> flat;  // index into the chunk's [rows, vocab] log-probs
  std::vector<int64_t> local_row;
  std::vector<tree::LossEntry> entries;
};

std::vector<double> ToVector(const at::Tensor& tensor) {
  const at::Tensor host = tensor.detach().to(at::kCPU, at::kDouble).contiguous();
  const double* data = host.const_data_ptr<double>();
  return {data, data + host.numel()};
}

// The sum of the several gradients that a parameter of a narrow type is given in a row: in the accumulator's type, and
// rounded once. In its own a sum of many stops growing.
class WideSum {
 public:
  WideSum(const at::Tensor& parameter, bool several)
      : parameter_(parameter), acts_(several && kernels::AccumulatorType(parameter) != parameter.scalar_type()) {
    if (acts_) earlier_ = std::exchange(parameter_.mutable_grad(), {});
  }

  void Collect() {
    if (!acts_) return;
    const at::NoGradGuard no_history;
    const at::Tensor gradient = std::exchange(parameter_.mutable_grad(), {});
    if (sum_.defined()) {
      sum_.add_(gradient);
    } else {
      sum_ = gradient.to(kernels::AccumulatorType(parameter_));
    }
  }

  void Finish() {
    if (!acts_) return;
    const at::NoGradGuard no_history;
    if (earlier_.defined()) sum_.add_(earlier_);
    parameter_.mutable_grad() = sum_.to(parameter_.scalar_type());
  }

 private:
  const at::Tensor parameter_;
  const bool acts_;
  at::Tensor earlier_, sum_;
};

class Pass {
 public:
  Pass(const model::Transformer& model, const tree::PackedForest& forest, std::span<const tree::CallPath> calls,
       EntryLoss* loss, const PassOptions& options)
      : model_(model), forest_(forest), loss_(loss), options_(options), plan_(PlanHead(forest, calls)) {
    result_.logprobs.resize(forest.entries.size());
    result_.entropy.resize(forest.entries.size());
  }

  PassResult Run() {
    if (forest_.entries.empty()) return std::move(result_);
    parts_ = tree::CutForest(forest_, options_.part_tokens);
    result_.parts = static_cast<int64_t>(parts_.size());
    result_.head_rows = static_cast<int64_t>(plan_.rows.size());
    path_.resize(parts_.size());
    std::vector<Waiting> waiting;
    tree::RunParts(
        parts_, [&](size_t i) { waiting.push_back(Start(i)); },
        [&](size_t) {
          Finish(waiting.back());
          waiting.pop_back();
        });
    return std::move(result_);
  }

 private:
  // A part that has run forward.
  struct Waiting {
    size_t index;
    std::unique_ptr<PartRun> run;
    at::Tensor grad;  // by its output; undefined: its head did not run yet
  };

  Waiting Start(size_t i) {
    Waiting part{
        i, std::make_unique<PartRun>(model_, forest_, parts_, i, path_, options_.numerics, options_.weights), {}};
    if (loss_ == nullptr) {
      Head(parts_[i], part.run->Forward(PartRun::Keep::kNothing));
    } else if (options_.recompute_prefix && parts_[i].seen_later(static_cast<int32_t>(i))) {
      part.run->Forward(PartRun::Keep::kNothing);
      result_.repeated_rows += parts_[i].size();
      result_.repeated_pairs += parts_[i].visible_pairs;
    } else {
      part.grad = Head(parts_[i], part.run->Forward(Kept()));
    }
    return part;
  }

  void Finish(Waiting& part) {
    if (loss_ != nullptr) {
      if (!part.grad.defined()) part.grad = Head(parts_[part.index], part.run->Forward(Kept()));
      part.run->Backward(std::move(part.grad));
      if (options_.part_done) options_.part_done();
    }
    path_[part.index] = {};
  }

  PartRun::Keep Kept() const { return options_.checkpoint_layers ? PartRun::Keep::kInputs : PartRun::Keep::kAll; }

  // What a part's entries read from its output x [size, hidden]. Returns the gradient by x, where there is a loss.
  at::Tensor Head(const tree::ForestPart& part, const at::Tensor& x) {
    const auto of_part = [&](int32_t row) {
      return static_cast<size_t>(std::lower_bound(plan_.rows.begin(), plan_.rows.end(), row) - plan_.rows.begin());
    };
    const size_t first = of_part(part.begin), last = of_part(part.end);
    if (first == last) return loss_ == nullptr ? at::Tensor() : at::zeros_like(x);
    if (options_.weights != nullptr) options_.weights->NeedHead();
    std::vector<int64_t> local(plan_.rows.begin() + static_cast<std::ptrdiff_t>(first),
                               plan_.rows.begin() + static_cast<std::ptrdiff_t>(last));
    for (int64_t& row : local) row -= part.begin;
    const at::Tensor input = x.detach();
    if (loss_ != nullptr) input.requires_grad_(true);
    const at::Tensor read = ToTensor(local, at::kLong, at::dtype(at::kLong).device(Device()));
    const at::Tensor rows = model_.Norm(input.index_select(0, read));
    const auto chunk =
        static_cast<size_t>(std::max<int64_t>(1, options_.logits_chunk_elements / model_.config().vocab_size));
    std::vector<at::Tensor> gradients;
    WideSum head(model_.head(), /*several=*/loss_ != nullptr && last - first > chunk);
    for (size_t begin = first; begin < last; begin += chunk) {
      const size_t end = std::min(last, begin + chunk);
      at::Tensor piece = rows.slice(0, static_cast<int64_t>(begin - first), static_cast<int64_t>(end - first)).detach();
      if (loss_ != nullptr) piece.requires_grad_(true);
      Chunk(piece, begin, end);
      if (loss_ != nullptr) gradients.push_back(piece.grad());
      head.Collect();
    }
    head.Finish();
    if (loss_ == nullptr) return {};
    rows.backward(gradients.size() == 1 ? gradients[0] : at::cat(gradients));
    return input.grad();
  }

  // Log-probs of rows [begin, end) of the plan, and the loss of the entries that read from them. The logits are the
  // only matrix of that size: their log-softmax and gradient are made in its place, a few rows at a time.
  void Chunk(const at::Tensor& hidden, size_t begin, size_t end) {
    const at::Tensor logits = model_.Logits(hidden);
    at::NoGradGuard no_history;
    at::Tensor values = logits.detach();
    const std::vector<double> temperatures(plan_.temperatures.begin() + static_cast<std::ptrdiff_t>(begin),
                                           plan_.temperatures.begin() + static_cast<std::ptrdiff_t>(end));
    const at::Tensor temperature = ToTensor(temperatures, at::kDouble, values.options()).unsqueeze(1);
    at::Tensor entropy_of_row = at::empty({values.size(0)}, values.options());
    ForRows(values, [&](int64_t first, int64_t last) {
      at::Tensor rows = values.slice(0, first, last);
      rows.copy_(model::PolicyLogSoftmax_(rows, temperature.slice(0, first, last)));
      entropy_of_row.slice(0, first, last).copy_(at::exp(rows).mul_(rows).sum(-1).neg_());
    });
    const ChunkEntries entries = Entries(begin, end, values.size(1));
    const auto ids = at::dtype(at::kLong).device(Device());
    const at::Tensor flat = ToTensor(entries.flat, at::kLong, ids);
    const std::vector<double> logprobs = ToVector(values.view({-1}).index_select(0, flat));
    const std::vector<double> entropy =
        ToVector(entropy_of_row.index_select(0, ToTensor(entries.local_row, at::kLong, ids)));
    if (loss_ != nullptr) {
      std::vector<double> by_logprob(logprobs.size()), by_entropy(logprobs.size());
      result_.loss += loss_->Evaluate(entries.entries, logprobs, entropy, by_logprob, by_entropy);
      ToLogitsGradient(entries, flat, by_logprob, by_entropy, entropy_of_row, temperatures, values);
      logits.backward(values);
    }
    for (size_t i = plan_.first_entry[begin], at = 0; i < plan_.first_entry[end]; ++i, ++at) {
      result_.logprobs[plan_.order[i]] = logprobs[at];
      result_.entropy[plan_.order[i]] = entropy[at];
    }
  }

  // Of the loss by the logits z, in the place of the log-softmax [rows, vocab]. With y = z / T, p = softmax(y) and a
  // row's entropy H,
  //   d logp_k / dy_i = [i = k] - p_i,    d H / dy_i = -p_i (logp_i + H)
  void ToLogitsGradient(const ChunkEntries& entries, const at::Tensor& flat, const std::vector<double>& by_logprob,
                        const std::vector<double>& by_entropy, const at::Tensor& entropy,
                        const std::vector<double>& temperatures, at::Tensor& values) const {
    const auto row_of = [&](size_t i) { return static_cast<size_t>(entries.local_row[i]); };
    std::vector<double> sum(temperatures.size()), entropy_sum(temperatures.size()), of_token(by_logprob.size());
    for (size_t i = 0; i < by_logprob.size(); ++i) {
      of_token[i] = by_logprob[i] / temperatures[row_of(i)];
      sum[row_of(i)] += of_token[i];
      entropy_sum[row_of(i)] += by_entropy[i] / temperatures[row_of(i)];
    }
    at::Tensor of_p = ToTensor(sum, at::kDouble, values.options()).unsqueeze(1);
    const at::Tensor of_h = ToTensor(entropy_sum, at::kDouble, values.options()).unsqueeze(1);
    if (loss_->uses_entropy()) of_p.add_(of_h * entropy.unsqueeze(1));
    ForRows(values, [&](int64_t first, int64_t last) {
      at::Tensor rows = values.slice(0, first, last);
      if (loss_->uses_entropy()) {
        const at::Tensor p = at::exp(rows);
        rows.mul_(p).mul_(of_h.slice(0, first, last)).addcmul_(p, of_p.slice(0, first, last)).neg_();
      } else {
        rows.exp_().mul_(of_p.slice(0, first, last)).neg_();
      }
    });
    values.view({-1}).index_add_(0, flat, ToTensor(of_token, at::kDouble, values.options()));
  }

  // body(first, last) over the rows of a matrix; on the CPU on its threads, so few at a time that a core's cache holds
  // them from one operation to the next. Which they are does not depend on the threads.
  template <typename F>
  static void ForRows(const at::Tensor& matrix, const F& body) {
    constexpr int64_t kElements = int64_t{1} << 17;
    const int64_t rows = matrix.size(0);
    if (!matrix.is_cpu()) return body(0, rows);
    const int64_t step = std::max<int64_t>(1, kElements / matrix.size(1));
    kernels::TorchParallelFor()((rows + step - 1) / step, [&](int64_t from, int64_t to) {
      const at::NoGradGuard no_history;  // the guard is a thread's own
      for (int64_t block = from; block < to; ++block) body(block * step, std::min(rows, (block + 1) * step));
    });
  }

  ChunkEntries Entries(size_t begin, size_t end, int64_t vocab) const {
    ChunkEntries chunk;
    for (size_t row = begin; row < end; ++row) {
      for (size_t i = plan_.first_entry[row]; i < plan_.first_entry[row + 1]; ++i) {
        const tree::LossEntry& entry = forest_.entries[plan_.order[i]];
        chunk.local_row.push_back(static_cast<int64_t>(row - begin));
        chunk.flat.push_back(static_cast<int64_t>(row - begin) * vocab + entry.token);
        chunk.entries.push_back(entry);
      }
    }
    return chunk;
  }

  at::Device Device() const { return model_.parameters().tensors().begin()->second.device(); }

  const model::Transformer& model_;
  const tree::PackedForest& forest_;
  EntryLoss* const loss_;  // null: score only
  const PassOptions& options_;
  const HeadPlan plan_;
  std::vector<tree::ForestPart> parts_;
  std::vector<PathRows> path_;
  PassResult result_;
};

}  // namespace

PassOptions PassOptionsOf(const TrainerOptions& options) {
  PassOptions pass;
  pass.logits_chunk_elements = options.logits_chunk_elements;
  pass.part_tokens = options.micro_batch_tokens;
  pass.checkpoint_layers = options.checkpoint_layers;
  pass.recompute_prefix = options.recompute_prefix;
  pass.numerics = options.numerics;
  return pass;
}

absl::StatusOr<tree::PackedForest> PackBatch(const PreparedBatch& batch) {
  return PackBatch(batch, tree::OrderChainFirst(batch.calls));
}

absl::StatusOr<tree::PackedForest> PackBatch(const PreparedBatch& batch, std::span<const int32_t> calls) {
  INGOT_ASSIGN_OR_RETURN(tree::PackedForest forest, tree::PackForest(batch.calls, calls));
  std::erase_if(forest.entries, [&](const tree::LossEntry& entry) { return !StepLoss::Bears(batch, entry); });
  return forest;
}

PassResult ScoreForest(const model::Transformer& model, const tree::PackedForest& forest,
                       std::span<const tree::CallPath> calls, const PassOptions& options) {
  const at::NoGradGuard no_history;
  return Pass(model, forest, calls, nullptr, options).Run();
}

void ScoreForests(const model::Transformer& model, const model::Transformer* reference,
                  std::span<const tree::PackedForest> forests, std::span<const tree::CallPath> calls, StepLoss& loss,
                  const PassOptions& options) {
  for (const tree::PackedForest& forest : forests) {
    if (loss.needs_reference()) {
      PassOptions of_reference = options;
      of_reference.weights = nullptr;
      loss.RecordReference(forest.entries, ScoreForest(*reference, forest, calls, of_reference).logprobs);
    }
    if (loss.needs_scores()) loss.RecordCurrent(forest.entries, ScoreForest(model, forest, calls, options).logprobs);
  }
}

PassResult AccumulateGradients(const model::Transformer& model, const tree::PackedForest& forest,
                               std::span<const tree::CallPath> calls, EntryLoss& loss, const PassOptions& options) {
  const at::AutoGradMode history(true);
  return Pass(model, forest, calls, &loss, options).Run();
}

}  // namespace ingot::trainer
