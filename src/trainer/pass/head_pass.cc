#include "trainer/pass/head_pass.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "kernels/torch/add_rows.h"
#include "kernels/torch/linear.h"
#include "kernels/torch/typed.h"

namespace ingot::trainer {
namespace {

bool Narrow(const at::Tensor& t) { return kernels::AccumulatorType(t) != t.scalar_type(); }

// Computes the gradient of the head's weight: a sum of products over a few rows each. If a narrow type has several
// products, they are summed in the accumulation type and rounded once, because a long sum in the narrow type stops
// growing.
class WeightGradient {
 public:
  WeightGradient(const at::Tensor& weight, bool several) : weight_(weight), wide_(several && Narrow(weight)) {}

  void Add(const at::Tensor& by_logits, const at::Tensor& hidden) {
    if (wide_) {
      kernels::AddProduct(sum_, by_logits.t(), hidden);
    } else if (at::Tensor& gradient = weight_.mutable_grad(); gradient.defined()) {
      gradient.addmm_(by_logits.t(), hidden);
    } else {
      gradient = kernels::Product(by_logits.t(), hidden);
    }
  }

  void Finish() {
    if (!wide_ || !sum_.defined()) return;
    if (weight_.grad().defined()) sum_.add_(weight_.grad());
    weight_.mutable_grad() = sum_.to(weight_.scalar_type());
  }

 private:
  const at::Tensor weight_;
  const bool wide_;
  at::Tensor sum_;
};

}  // namespace

HeadRows::HeadRows(int64_t logits_chunk_elements, int64_t vocab, bool narrow) {
  constexpr int64_t kGradientChunks = 8;
  logits = std::max<int64_t>(1, logits_chunk_elements / vocab);
  gradient = narrow ? kGradientChunks * logits : logits;
}

HeadPass::HeadPass(const model::Transformer& model, const tree::PackedForest& forest,
                   std::span<const tree::CallPath> calls, EntryLoss* loss, int64_t logits_chunk_elements,
                   const PolicyReader& reader)
    : model_(model),
      forest_(forest),
      loss_(loss),
      reader_(reader),
      at_once_(logits_chunk_elements, model.config().vocab_size, Narrow(model.head())),
      order_(forest.entries.size()) {
  const auto key = [&](size_t entry) {
    const tree::LossEntry& e = forest.entries[entry];
    return std::pair(e.row, calls[static_cast<size_t>(e.call)].temperature);
  };
  std::iota(order_.begin(), order_.end(), size_t{0});
  std::stable_sort(order_.begin(), order_.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  for (size_t i = 0; i < order_.size(); ++i) {
    if (i > 0 && key(order_[i]) == key(order_[i - 1])) continue;
    const auto [row, temperature] = key(order_[i]);
    rows_.push_back(row);
    temperatures_.push_back(temperature);
    first_entry_.push_back(i);
  }
  first_entry_.push_back(order_.size());
  result_.logprobs.resize(forest.entries.size());
  result_.entropy.resize(forest.entries.size());
}

size_t HeadPass::PlaceOf(int32_t row) const {
  return static_cast<size_t>(std::lower_bound(rows_.begin(), rows_.end(), row) - rows_.begin());
}

at::Tensor HeadPass::Run(int32_t begin_row, int32_t end_row, const at::Tensor& x, base::WorkPart* shown) {
  const size_t first = PlaceOf(begin_row), last = PlaceOf(end_row);
  if (first == last) return loss_ == nullptr ? at::Tensor() : at::zeros_like(x);
  std::vector<int64_t> local(rows_.begin() + static_cast<std::ptrdiff_t>(first),
                             rows_.begin() + static_cast<std::ptrdiff_t>(last));
  for (int64_t& row : local) row -= begin_row;
  const at::Tensor input = x.detach();
  if (loss_ != nullptr) input.requires_grad_(true);
  const at::Tensor read = at::tensor(local, at::kLong).to(x.device());
  const at::Tensor normed = model_.Norm(kernels::GatherRows(input, read));
  at::Tensor by_normed;
  {
    const at::NoGradGuard no_history;
    const at::Tensor hidden = normed.detach(), &weight = model_.head();
    const auto chunk = static_cast<size_t>(at_once_.logits), group = static_cast<size_t>(at_once_.gradient);
    WeightGradient by_weight(weight, /*several=*/last - first > group);
    if (loss_ != nullptr) by_normed = at::empty_like(hidden);
    for (size_t begin = first; begin < last; begin += group) {
      const size_t end = std::min(last, begin + group);
      const auto at = [&](size_t row) { return static_cast<int64_t>(row - first); };
      at::Tensor gradient;
      if (loss_ != nullptr && Narrow(hidden)) {
        gradient = at::empty({at(end) - at(begin), weight.size(0)}, hidden.options());
      }
      for (size_t from = begin; from < end; from += chunk) {
        const size_t to = std::min(end, from + chunk);
        const at::Tensor piece = hidden.slice(0, at(from), at(to));
        if (gradient.defined()) {
          Chunk(piece, from, to, gradient.slice(0, at(from) - at(begin), at(to) - at(begin)));
        } else {
          gradient = Chunk(piece, from, to, {});  // the only chunk of its group
        }
        if (shown != nullptr) shown->Advance(static_cast<int64_t>(to - from));
      }
      if (loss_ == nullptr) continue;
      at::Tensor by_piece = by_normed.slice(0, at(begin), at(end));
      kernels::Product(gradient, weight, by_piece);
      if (weight.requires_grad()) by_weight.Add(gradient, hidden.slice(0, at(begin), at(end)));
    }
    by_weight.Finish();
  }
  if (loss_ == nullptr) return {};
  normed.backward(by_normed);
  return input.grad();
}

HeadPass::Entries HeadPass::EntriesOf(size_t begin, size_t end) const {
  Entries chunk;
  for (size_t row = begin; row < end; ++row) {
    for (size_t i = first_entry_[row]; i < first_entry_[row + 1]; ++i) {
      chunk.entries.push_back(forest_.entries[order_[i]]);
      chunk.tokens.row.push_back(static_cast<int64_t>(row - begin));
      chunk.tokens.token.push_back(chunk.entries.back().token);
    }
  }
  return chunk;
}

// Processes rows [begin, end) of the plan: records the log-probs of their entries and, with a loss, computes the
// gradient with respect to the logits [end - begin, vocab]. Writes the gradient to `gradient` if that is defined, or
// else to the logits' memory, and returns it.
at::Tensor HeadPass::Chunk(const at::Tensor& hidden, size_t begin, size_t end, const at::Tensor& gradient) {
  const std::vector<double> temperatures(temperatures_.begin() + static_cast<std::ptrdiff_t>(begin),
                                         temperatures_.begin() + static_cast<std::ptrdiff_t>(end));
  const kernels::Policy policy(model_.Logits(hidden), at::tensor(temperatures, at::kDouble),
                               model_.config().logit_soft_cap);
  const Entries chunk = EntriesOf(begin, end);
  if (reader_) reader_(policy, chunk.entries, chunk.tokens.row);
  const std::vector<double> logprobs = policy.LogProbs(chunk.tokens);
  const at::Tensor row_entropy = policy.entropy().to(at::kCPU, at::kDouble);
  std::vector<double> entropy;
  entropy.reserve(logprobs.size());
  for (const int64_t row : chunk.tokens.row) entropy.push_back(row_entropy.const_data_ptr<double>()[row]);
  for (size_t i = first_entry_[begin], at = 0; i < first_entry_[end]; ++i, ++at) {
    result_.logprobs[order_[i]] = logprobs[at];
    result_.entropy[order_[i]] = entropy[at];
  }
  if (loss_ == nullptr) return {};
  std::vector<double> by_logprob(logprobs.size()), by_entropy(logprobs.size()), by_row_entropy;
  result_.loss += loss_->Evaluate(chunk.entries, logprobs, entropy, by_logprob, by_entropy);
  if (loss_->uses_entropy()) {
    by_row_entropy.resize(end - begin);
    for (size_t i = 0; i < by_entropy.size(); ++i) {
      by_row_entropy[static_cast<size_t>(chunk.tokens.row[i])] += by_entropy[i];
    }
  }
  return policy.Gradient(chunk.tokens, by_logprob, by_row_entropy, gradient);
}

}  // namespace ingot::trainer
