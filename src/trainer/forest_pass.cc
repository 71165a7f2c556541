#include "trainer/forest_pass.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "trainer/path_backend.h"

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

HeadPlan PlanHead(const tree::PackedForest& forest, std::span<const tree::FlatCall> calls) {
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

class Pass {
 public:
  Pass(const model::Transformer& model, const tree::PackedForest& forest, std::span<const tree::FlatCall> calls,
       EntryLoss* loss, const PassOptions& options)
      : model_(model), forest_(forest), loss_(loss), options_(options), plan_(PlanHead(forest, calls)) {
    result_.logprobs.resize(forest.entries.size());
    result_.entropy.resize(forest.entries.size());
  }

  PassResult Run() {
    if (forest_.entries.empty()) return std::move(result_);
    at::Tensor rows = HiddenRows();
    const int64_t unique = rows.size(0);
    const int64_t chunk = std::max<int64_t>(1, options_.logits_chunk_elements / model_.config().vocab_size);
    std::vector<at::Tensor> gradients;
    for (int64_t begin = 0; begin < unique; begin += chunk) {
      const int64_t end = std::min(unique, begin + chunk);
      at::Tensor piece = rows.slice(0, begin, end).detach();
      if (loss_ != nullptr) piece.requires_grad_(true);
      Head(piece, static_cast<size_t>(begin), static_cast<size_t>(end));
      if (loss_ != nullptr) gradients.push_back(piece.grad());
    }
    if (loss_ != nullptr) rows.backward(gradients.size() == 1 ? gradients[0] : at::cat(gradients));
    return std::move(result_);
  }

 private:
  at::Tensor HiddenRows() {
    const auto ids = at::dtype(at::kLong).device(Device());
    const at::Tensor tokens = ToTensor(forest_.token_ids, at::kInt, ids);
    const at::Tensor positions = ToTensor(forest_.positions, at::kInt, ids);
    const auto attention =
        StreamAttention(options_.numerics, forest_.positions, forest_.visible_end, model_.config().head_dim);
    return model_.Hidden(tokens, positions, *attention).index_select(0, ToTensor(plan_.rows, at::kLong, ids));
  }

  // Log-probs of rows [begin, end) of the plan, and the loss of the entries that read from them.
  void Head(const at::Tensor& hidden, size_t begin, size_t end) {
    const at::Tensor logits = model_.Logits(hidden);
    const std::vector<double> temperatures(plan_.temperatures.begin() + static_cast<std::ptrdiff_t>(begin),
                                           plan_.temperatures.begin() + static_cast<std::ptrdiff_t>(end));
    const at::Tensor log_softmax =
        model::PolicyLogSoftmax(logits, ToTensor(temperatures, at::kDouble, logits.options().requires_grad(false)));
    const ChunkEntries entries = Entries(begin, end, log_softmax.size(1));
    const auto ids = at::dtype(at::kLong).device(Device());
    const at::Tensor logprobs = log_softmax.reshape({-1}).index_select(0, ToTensor(entries.flat, at::kLong, ids));
    const at::Tensor entropy = EntropyOf(log_softmax).index_select(0, ToTensor(entries.local_row, at::kLong, ids));
    const std::vector<double> logprob_values = ToVector(logprobs), entropy_values = ToVector(entropy);
    if (loss_ != nullptr) {
      std::vector<double> by_logprob(logprob_values.size()), by_entropy(logprob_values.size());
      result_.loss += loss_->Evaluate(entries.entries, logprob_values, entropy_values, by_logprob, by_entropy);
      // A sum whose derivatives are the loss's.
      const auto like = log_softmax.options().requires_grad(false);
      at::Tensor surrogate = (ToTensor(by_logprob, at::kDouble, like) * logprobs).sum();
      if (loss_->uses_entropy()) surrogate = surrogate + (ToTensor(by_entropy, at::kDouble, like) * entropy).sum();
      surrogate.backward();
    }
    for (size_t i = plan_.first_entry[begin], at = 0; i < plan_.first_entry[end]; ++i, ++at) {
      result_.logprobs[plan_.order[i]] = logprob_values[at];
      result_.entropy[plan_.order[i]] = entropy_values[at];
    }
  }

  at::Tensor EntropyOf(const at::Tensor& log_softmax) const {
    // History only where the loss asks for it: this is the one other operation as large as the logits.
    const at::AutoGradMode history(loss_ != nullptr && loss_->uses_entropy());
    return -(log_softmax.exp() * log_softmax).sum(-1);
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
  PassResult result_;
};

}  // namespace

PassResult ScoreForest(const model::Transformer& model, const tree::PackedForest& forest,
                       std::span<const tree::FlatCall> calls, const PassOptions& options) {
  const at::NoGradGuard no_history;
  return Pass(model, forest, calls, nullptr, options).Run();
}

void ScoreForests(const model::Transformer& model, const model::Transformer* reference,
                  std::span<const tree::PackedForest> forests, std::span<const tree::FlatCall> calls, StepLoss& loss,
                  const PassOptions& options) {
  for (const tree::PackedForest& forest : forests) {
    if (loss.needs_reference()) {
      loss.RecordReference(forest.entries, ScoreForest(*reference, forest, calls, options).logprobs);
    }
    if (loss.needs_scores()) loss.RecordCurrent(forest.entries, ScoreForest(model, forest, calls, options).logprobs);
  }
  if (loss.needs_scores()) loss.Fix();
}

PassResult AccumulateGradients(const model::Transformer& model, const tree::PackedForest& forest,
                               std::span<const tree::FlatCall> calls, EntryLoss& loss, const PassOptions& options) {
  const at::AutoGradMode history(true);
  return Pass(model, forest, calls, &loss, options).Run();
}

}  // namespace ingot::trainer
