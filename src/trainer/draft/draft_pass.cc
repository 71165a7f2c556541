#include "trainer/draft/draft_pass.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "kernels/torch/add_rows.h"
#include "kernels/torch/typed.h"

namespace ingot::trainer {
namespace {

constexpr double kDepthDiscount = 0.8;
constexpr double kLeastTail = 1e-6;                   // so that the logarithm of a tail is finite
constexpr int64_t kWholeElements = int64_t{1} << 26;  // elements of the teachers' rows under the loss kl

int64_t MostTokens(const DraftOptions& options, int64_t ids) {
  return options.loss == "kl" ? std::min(options.rows_per_step, std::max<int64_t>(1, kWholeElements / ids))
                              : options.rows_per_step;
}

at::Tensor Longs(const std::vector<int32_t>& values, const at::Device& device) {
  return at::tensor(at::ArrayRef<int32_t>(values), at::kInt).to(device, at::kLong);
}

// Returns the probability that `logprobs` [rows, k] leaves to other ids, [rows, 1].
at::Tensor TailOf(const at::Tensor& logprobs) { return (1 - logprobs.exp().sum(1, true)).clamp_min(kLeastTail); }

}  // namespace

DraftPass::DraftPass(const DraftOptions& options, const model::DraftHead& head, const model::Transformer& policy,
                     const tree::PackedForest& forest, std::span<const tree::CallPath> calls,
                     int64_t logits_chunk_elements, uint64_t seed)
    : options_(options),
      head_(head),
      policy_(policy),
      forest_(forest),
      calls_(calls),
      logits_chunk_elements_(logits_chunk_elements),
      kept_(whole() ? head.predicted() : std::min(options.top_k, head.predicted())),
      rows_(ChooseDraftRows(forest, calls, options.depths, MostTokens(options, head.predicted()), seed)) {
  const at::Tensor& matrix = policy.head();
  const auto wide = matrix.options().requires_grad(false).dtype(kernels::AccumulatorType(matrix));
  const auto teachers = std::ssize(rows_.teachers);
  hidden_ = at::zeros({std::ssize(rows_.hidden), policy.config().hidden_size}, matrix.options().requires_grad(false));
  logprobs_ = at::zeros({teachers, kept_}, wide);
  if (!whole()) ids_ = at::zeros({teachers, kept_}, wide.dtype(at::kLong));
  std::vector<double> weights, temperatures;
  for (const DraftRows::Teacher& teacher : rows_.teachers) {
    weights.push_back(teacher.weight / rows_.tokens);
    temperatures.push_back(teacher.temperature);
  }
  weights_ = at::tensor(at::ArrayRef<double>(weights), at::kDouble).to(wide);
  temperatures_ = at::tensor(at::ArrayRef<double>(temperatures), at::kDouble).to(wide);
}

void DraftPass::Observe(PassOptions& pass) {
  pass.read_policy = [this, before = std::move(pass.read_policy)](const kernels::Policy& policy,
                                                                  std::span<const tree::LossEntry> entries,
                                                                  std::span<const int64_t> row) {
    if (before) before(policy, entries, row);
    ReadPolicy(policy, entries, row);
  };
  pass.read_hidden = [this, before = std::move(pass.read_hidden)](int32_t begin, int32_t end, const at::Tensor& x) {
    if (before) before(begin, end, x);
    ReadHidden(begin, end, x);
  };
}

void DraftPass::ReadPolicy(const kernels::Policy& policy, std::span<const tree::LossEntry> entries,
                           std::span<const int64_t> row) {
  const at::NoGradGuard no_history;
  std::map<int64_t, int64_t> chosen;  // teachers by row of the policy
  for (size_t i = 0; i < entries.size(); ++i) {
    const int64_t teacher = rows_.Find(entries[i].row, calls_[static_cast<size_t>(entries[i].call)].temperature);
    if (teacher >= 0) chosen[row[i]] = teacher;
  }
  if (chosen.empty()) return;
  std::vector<int64_t> of_policy, teachers;
  for (const auto& [at, teacher] : chosen) {
    of_policy.push_back(at);
    teachers.push_back(teacher);
  }
  at::Tensor logprobs = policy.LogSoftmaxOf(of_policy);
  if (head_.id_tensor().defined()) {
    logprobs = logprobs.index_select(1, head_.id_tensor());
    logprobs = logprobs - logprobs.logsumexp(1, true);
  }
  Keep(teachers, logprobs);
}

void DraftPass::Keep(const std::vector<int64_t>& index, const at::Tensor& logprobs) {
  const at::Tensor at = at::tensor(index, at::kLong).to(logprobs.device());
  if (whole()) {
    logprobs_.index_copy_(0, at, logprobs);
    return;
  }
  const auto [values, ids] = logprobs.topk(kept_, 1);
  logprobs_.index_copy_(0, at, values);
  ids_.index_copy_(0, at, ids);
}

void DraftPass::ReadHidden(int32_t begin, int32_t end, const at::Tensor& x) {
  const at::NoGradGuard no_history;
  const auto first = std::lower_bound(rows_.hidden.begin(), rows_.hidden.end(), begin);
  const auto last = std::lower_bound(first, rows_.hidden.end(), end);
  if (first == last) return;
  std::vector<int32_t> local(first, last);
  for (int32_t& row : local) row -= begin;
  const at::Tensor normed = policy_.Norm(x.index_select(0, Longs(local, x.device())));
  hidden_.narrow(0, first - rows_.hidden.begin(), last - first).copy_(normed);
}

DraftPass::Loss DraftPass::LossOf(const at::Tensor& logits, const at::Tensor& teachers) const {
  const at::Tensor p = logprobs_.index_select(0, teachers), weights = weights_.index_select(0, teachers).unsqueeze(1);
  const at::Tensor all = (logits / temperatures_.index_select(0, teachers).unsqueeze(1)).log_softmax(1);
  const at::Tensor q = whole() ? all : all.gather(1, ids_.index_select(0, teachers));
  at::Tensor distance;
  if (whole()) {
    const at::Tensor gap = (p - q).masked_fill(p == -std::numeric_limits<double>::infinity(), 0);
    distance = p.exp() * gap;
  } else if (options_.loss == "topk_kl") {
    const at::Tensor of_p = TailOf(p), of_q = TailOf(q);
    distance = at::cat({p.exp() * (p - q), of_p * (of_p.log() - of_q.log())}, 1);
  } else {
    distance = at::cat({p.exp() - q.exp(), TailOf(p) - TailOf(q)}, 1).abs() / 2;
  }
  const at::Tensor overlap = (at::minimum(p.detach(), q.detach()).exp() * weights).sum();
  return {(distance * weights).sum(), overlap.item<double>()};
}

void DraftPass::RunDepth(size_t depth, const at::Tensor& outputs, const at::Tensor& gradient,
                         DraftResult& result) const {
  const DraftRows::Depth& at = rows_.depths[depth];
  const double discount = std::pow(kDepthDiscount, static_cast<double>(depth));
  const auto chunk = static_cast<size_t>(std::max<int64_t>(1, logits_chunk_elements_ / head_.predicted() / 4));
  for (size_t begin = 0; begin < at.taught.size(); begin += chunk) {
    const size_t end = std::min(at.taught.size(), begin + chunk);
    const auto piece = [&](const std::vector<int32_t>& all) {
      return Longs({all.begin() + static_cast<std::ptrdiff_t>(begin), all.begin() + static_cast<std::ptrdiff_t>(end)},
                   outputs.device());
    };
    const at::Tensor taught = piece(at.taught);
    const at::Tensor input = outputs.detach().index_select(0, taught).requires_grad_(true);
    const Loss loss = LossOf(head_.Logits(input), piece(at.teachers));
    (loss.sum * discount).backward();
    kernels::AddRows(gradient, taught, input.grad());
    result.loss += discount * loss.sum.item<double>();
    if (depth == 0) result.overlap += loss.overlap;
  }
}

DraftResult DraftPass::Run() {
  const at::AutoGradMode history(true);
  DraftResult result;
  result.tokens = rows_.tokens;
  std::vector<at::Tensor> outputs, gradients;
  at::Tensor before = hidden_;
  for (size_t depth = 0; depth < rows_.depths.size(); ++depth) {
    const DraftRows::Depth& at = rows_.depths[depth];
    if (at.rows.empty()) break;
    std::vector<int32_t> tokens;
    for (const int32_t row : at.rows) tokens.push_back(forest_.token_ids[static_cast<size_t>(row)]);
    const at::Tensor sources = kernels::GatherRows(before, Longs(at.sources, hidden_.device()));
    before = head_.Hidden(sources, Longs(tokens, hidden_.device()));
    outputs.push_back(before);
    gradients.push_back(at::zeros_like(before.detach()));
    RunDepth(depth, before, gradients.back(), result);
  }
  if (!outputs.empty()) torch::autograd::backward(outputs, gradients);
  return result;
}

}  // namespace ingot::trainer
