#include "trainer/head_pass.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "kernels/torch/threads.h"
#include "kernels/torch/typed.h"

namespace ingot::trainer {
namespace {

template <typename T>
at::Tensor ToTensor(std::span<const T> values, at::ScalarType stored, const at::TensorOptions& options) {
  return at::from_blob(const_cast<T*>(values.data()), {static_cast<int64_t>(values.size())}, at::dtype(stored))
      .to(options, /*non_blocking=*/false, /*copy=*/true);
}

std::vector<double> ToVector(const at::Tensor& tensor) {
  const at::Tensor host = tensor.detach().to(at::kCPU, at::kDouble).contiguous();
  const double* data = host.const_data_ptr<double>();
  return {data, data + host.numel()};
}

bool Narrow(const at::Tensor& t) { return kernels::AccumulatorType(t) != t.scalar_type(); }

// body(first, last) over the rows of a matrix; on the CPU on its threads, so few at a time that a core's cache holds
// them from one operation to the next. Which they are does not depend on the threads.
template <typename F>
void ForRows(const at::Tensor& matrix, const F& body) {
  constexpr int64_t kElements = int64_t{1} << 17;
  const int64_t rows = matrix.size(0);
  if (!matrix.is_cpu()) return body(0, rows);
  const int64_t step = std::max<int64_t>(1, kElements / matrix.size(1));
  kernels::TorchParallelFor()((rows + step - 1) / step, [&](int64_t from, int64_t to) {
    const at::NoGradGuard no_history;  // the guard is a thread's own
    for (int64_t block = from; block < to; ++block) body(block * step, std::min(rows, (block + 1) * step));
  });
}

// The weight's gradient, a product over a few rows at a time: several in a narrow type are added up in the type of the
// sums and rounded once, for in its own a sum of many stops growing.
class WeightGradient {
 public:
  WeightGradient(const at::Tensor& weight, bool several) : weight_(weight), wide_(several && Narrow(weight)) {}

  void Add(const at::Tensor& by_logits, const at::Tensor& hidden) {
    if (wide_) {
      Accumulate(at::mm(by_logits.t(), hidden));
    } else if (at::Tensor& gradient = weight_.mutable_grad(); gradient.defined()) {
      gradient.addmm_(by_logits.t(), hidden);
    } else {
      gradient = at::mm(by_logits.t(), hidden);
    }
  }

  void Finish() {
    if (!wide_ || !sum_.defined()) return;
    if (weight_.grad().defined()) sum_.add_(weight_.grad());
    weight_.mutable_grad() = sum_.to(weight_.scalar_type());
  }

 private:
  void Accumulate(const at::Tensor& part) {
    if (sum_.defined()) {
      sum_.add_(part);
    } else {
      sum_ = part.to(kernels::AccumulatorType(weight_));
    }
  }

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
                   std::span<const tree::CallPath> calls, EntryLoss* loss, int64_t logits_chunk_elements)
    : model_(model),
      forest_(forest),
      loss_(loss),
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

at::Tensor HeadPass::Run(int32_t begin_row, int32_t end_row, const at::Tensor& x) {
  const size_t first = PlaceOf(begin_row), last = PlaceOf(end_row);
  if (first == last) return loss_ == nullptr ? at::Tensor() : at::zeros_like(x);
  std::vector<int64_t> local(rows_.begin() + static_cast<std::ptrdiff_t>(first),
                             rows_.begin() + static_cast<std::ptrdiff_t>(last));
  for (int64_t& row : local) row -= begin_row;
  const at::Tensor input = x.detach();
  if (loss_ != nullptr) input.requires_grad_(true);
  const at::Tensor read = ToTensor<int64_t>(local, at::kLong, at::dtype(at::kLong).device(x.device()));
  const at::Tensor normed = model_.Norm(input.index_select(0, read));
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
      }
      if (loss_ == nullptr) continue;
      at::Tensor by_piece = by_normed.slice(0, at(begin), at(end));
      at::mm_out(by_piece, gradient, weight);
      if (weight.requires_grad()) by_weight.Add(gradient, hidden.slice(0, at(begin), at(end)));
    }
    by_weight.Finish();
  }
  if (loss_ == nullptr) return {};
  normed.backward(by_normed);
  return input.grad();
}

HeadPass::Entries HeadPass::EntriesOf(size_t begin, size_t end, int64_t vocab) const {
  Entries chunk;
  for (size_t row = begin; row < end; ++row) {
    chunk.first.push_back(chunk.entries.size());
    for (size_t i = first_entry_[row]; i < first_entry_[row + 1]; ++i) {
      const tree::LossEntry& entry = forest_.entries[order_[i]];
      chunk.row.push_back(row - begin);
      chunk.place.push_back(static_cast<int64_t>(row - begin) * vocab + entry.token);
      chunk.entries.push_back(entry);
    }
  }
  chunk.first.push_back(chunk.entries.size());
  return chunk;
}

// Log-probs of rows [begin, end) of the plan, and of the loss of the entries that read from them the gradient by the
// logits: in `gradient` where it is defined, otherwise in the logits' place and returned.
at::Tensor HeadPass::Chunk(const at::Tensor& hidden, size_t begin, size_t end, at::Tensor gradient) {
  at::Tensor values = model_.Logits(hidden);
  const std::span<const double> temperatures(temperatures_.data() + begin, end - begin);
  const at::Tensor temperature = ToTensor(temperatures, at::kDouble, values.options()).unsqueeze(1);
  const Entries entries = EntriesOf(begin, end, values.size(1));
  at::Tensor entropy_of_row = at::empty({values.size(0)}, values.options());
  const std::vector<double> logprobs = LogProbs(values, temperature, entries, entropy_of_row);
  const std::vector<double> row_entropy = ToVector(entropy_of_row);
  std::vector<double> entropy;
  entropy.reserve(entries.row.size());
  for (const size_t row : entries.row) entropy.push_back(row_entropy[row]);
  if (loss_ != nullptr) {
    if (!gradient.defined()) gradient = values;
    std::vector<double> by_logprob(logprobs.size()), by_entropy(logprobs.size());
    result_.loss += loss_->Evaluate(entries.entries, logprobs, entropy, by_logprob, by_entropy);
    ToGradient(entries, by_logprob, by_entropy, entropy_of_row, temperatures, values, gradient);
  }
  for (size_t i = first_entry_[begin], at = 0; i < first_entry_[end]; ++i, ++at) {
    result_.logprobs[order_[i]] = logprobs[at];
    result_.entropy[order_[i]] = entropy[at];
  }
  return gradient;
}

// The entries' log-probs and every row's entropy. Leaves in the logits' place what ToGradient begins with: the softmax,
// or, where the loss depends on the entropy, its logarithm.
std::vector<double> HeadPass::LogProbs(at::Tensor& logits, const at::Tensor& temperature, const Entries& entries,
                                       at::Tensor& entropy) const {
  const int64_t vocab = logits.size(1);
  const at::Tensor place = ToTensor<int64_t>(entries.place, at::kLong, at::dtype(at::kLong).device(logits.device()));
  at::Tensor picked = at::empty({place.size(0)}, logits.options());
  ForRows(logits, [&](int64_t first, int64_t last) {
    at::Tensor rows = logits.slice(0, first, last);
    at::Tensor of_rows = model::PolicyLogSoftmax_(rows, temperature.slice(0, first, last));
    const auto from = static_cast<int64_t>(entries.first[static_cast<size_t>(first)]);
    const auto to = static_cast<int64_t>(entries.first[static_cast<size_t>(last)]);
    picked.slice(0, from, to).copy_(of_rows.view({-1}).index_select(0, place.slice(0, from, to) - first * vocab));
    at::exp_out(rows, of_rows);
    if (loss_ != nullptr && loss_->uses_entropy()) {
      entropy.slice(0, first, last).copy_(rows.mul_(of_rows).sum(-1).neg_());
      rows.copy_(of_rows);
    } else {
      entropy.slice(0, first, last).copy_(of_rows.mul_(rows).sum(-1).neg_());
    }
  });
  return ToVector(picked);
}

// Of the loss by the logits z, from what LogProbs left in `values`, a few rows at a time and there narrowed into
// `gradient`, which may be `values`. With y = z / T, p = softmax(y) and a row's entropy H,
//   d logp_k / dy_i = [i = k] - p_i,    d H / dy_i = -p_i (logp_i + H)
void HeadPass::ToGradient(const Entries& entries, const std::vector<double>& by_logprob,
                          const std::vector<double>& by_entropy, const at::Tensor& entropy,
                          std::span<const double> temperatures, at::Tensor& values, at::Tensor& gradient) const {
  const int64_t vocab = values.size(1);
  std::vector<double> of_p(temperatures.size()), of_h(temperatures.size()), of_token(by_logprob.size());
  for (size_t i = 0; i < by_logprob.size(); ++i) {
    of_token[i] = by_logprob[i] / temperatures[entries.row[i]];
    of_p[entries.row[i]] -= of_token[i];
    of_h[entries.row[i]] -= by_entropy[i] / temperatures[entries.row[i]];
  }
  const auto column = [&](const std::vector<double>& v) {
    return ToTensor<double>(v, at::kDouble, values.options()).unsqueeze(1);
  };
  at::Tensor by_p = column(of_p);
  const at::Tensor by_h = column(of_h), by_token = ToTensor<double>(of_token, at::kDouble, values.options());
  if (loss_->uses_entropy()) by_p.add_(by_h * entropy.unsqueeze(1));
  const at::Tensor place = ToTensor<int64_t>(entries.place, at::kLong, at::dtype(at::kLong).device(values.device()));
  ForRows(values, [&](int64_t first, int64_t last) {
    at::Tensor rows = values.slice(0, first, last);
    if (loss_->uses_entropy()) {
      const at::Tensor p = at::exp(rows);
      rows.mul_(p).mul_(by_h.slice(0, first, last)).addcmul_(p, by_p.slice(0, first, last));
    } else {
      rows.mul_(by_p.slice(0, first, last));
    }
    const auto from = static_cast<int64_t>(entries.first[static_cast<size_t>(first)]);
    const auto to = static_cast<int64_t>(entries.first[static_cast<size_t>(last)]);
    rows.view({-1}).index_add_(0, place.slice(0, from, to) - first * vocab, by_token.slice(0, from, to));
    if (!gradient.is_same(values)) gradient.slice(0, first, last).copy_(rows);
  });
}

}  // namespace ingot::trainer
