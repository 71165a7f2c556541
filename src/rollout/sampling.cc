#include "rollout/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/rng.h"

namespace ingot::rollout {

namespace {

struct MoreLikely {
  std::span<const float> logprobs;
  bool operator()(int32_t a, int32_t b) const { return logprobs[a] != logprobs[b] ? logprobs[a] > logprobs[b] : a < b; }
};

int32_t Greedy(std::span<const float> logprobs) {
  return static_cast<int32_t>(std::max_element(logprobs.begin(), logprobs.end()) - logprobs.begin());
}

// The sum of the row is known up to rounding. One walk suffices: the last possible token takes the rounding error.
int32_t DrawWhole(std::span<const float> logprobs, double uniform) {
  double sum = 0;
  int32_t last = 0;
  for (size_t id = 0; id < logprobs.size(); ++id) {
    const float p = std::exp(logprobs[id]);
    if (!(p > 0)) continue;
    sum += p;
    last = static_cast<int32_t>(id);
    if (uniform < sum) break;
  }
  return last;
}

absl::Status Refuse(const char* field, double value, const char* allowed) {
  return absl::InvalidArgumentError(absl::StrCat("sampling.", field, " is ", value, "; it must be ", allowed));
}

}  // namespace

absl::Status ValidateSampling(const v1::SamplingParams& params) {
  // Written so that NaN fails.
  if (!(params.temperature() >= 0 && params.temperature() <= 100)) {
    return Refuse("temperature", params.temperature(), "between 0 and 100");
  }
  if (params.temperature() > 0 && params.temperature() < 1e-3f) {
    return Refuse("temperature", params.temperature(), "0 (greedy) or at least 0.001");
  }
  if (!(params.top_p() >= 0 && params.top_p() <= 1)) return Refuse("top_p", params.top_p(), "between 0 and 1");
  if (!(params.min_p() >= 0 && params.min_p() <= 1)) return Refuse("min_p", params.min_p(), "between 0 and 1");
  if (params.top_k() < 0) return Refuse("top_k", params.top_k(), "0 (off) or more");
  if (params.max_new_tokens() <= 0) return Refuse("max_new_tokens", params.max_new_tokens(), "at least 1");
  return absl::OkStatus();
}

DrawOptions DrawOptions::From(const v1::SamplingParams& params) {
  return {.temperature = params.temperature(),
          .top_k = params.top_k(),
          .top_p = params.top_p(),
          .min_p = params.min_p(),
          .seed = params.seed()};
}

int32_t Sampler::Draw(std::span<const float> logprobs, const DrawOptions& options, int64_t index, double mass) {
  if (options.temperature == 0) return Greedy(logprobs);
  const double uniform = base::UniformAt(options.seed, static_cast<uint64_t>(index));
  const bool whole = (options.top_p == 0 || options.top_p >= 1) && options.min_p == 0 &&
                     (options.top_k == 0 || options.top_k >= static_cast<int64_t>(logprobs.size()));
  if (whole) return DrawWhole(logprobs, uniform * mass);
  return DrawTruncated(logprobs, options, uniform);
}

int32_t Sampler::DrawTruncated(std::span<const float> logprobs, const DrawOptions& options, double uniform) {
  const MoreLikely more_likely{logprobs};
  order_.resize(logprobs.size());
  std::iota(order_.begin(), order_.end(), 0);
  if (options.top_k > 0 && options.top_k < static_cast<int64_t>(order_.size())) {
    std::nth_element(order_.begin(), order_.begin() + options.top_k, order_.end(), more_likely);
    order_.resize(options.top_k);
  }
  const bool nucleus = options.top_p > 0 && options.top_p < 1;
  double needed = 0;
  if (nucleus) {
    for (const int32_t id : order_) needed += std::exp(static_cast<double>(logprobs[id]));
    needed *= options.top_p;
  }
  // Both cuts are prefixes of the order by likelihood. Tokens are taken off a heap until a cut ends the loop, which
  // avoids a sort of the vocabulary.
  const auto heap_order = [&](int32_t a, int32_t b) { return more_likely(b, a); };
  std::make_heap(order_.begin(), order_.end(), heap_order);
  weights_.clear();
  kept_.clear();
  double total = 0;
  for (size_t left = order_.size(); left > 0; --left) {
    if (nucleus && !kept_.empty() && total >= needed) break;
    std::pop_heap(order_.begin(), order_.begin() + left, heap_order);
    const int32_t id = order_[left - 1];
    const double weight = std::exp(static_cast<double>(logprobs[id]));
    if (!kept_.empty() && (!(weight > 0) || weight < options.min_p * weights_[0])) break;
    kept_.push_back(id);
    weights_.push_back(weight);
    total += weight;
  }
  double sum = 0;
  for (size_t i = 0; i < kept_.size(); ++i) {
    sum += weights_[i];
    if (uniform * total < sum) return kept_[i];
  }
  return kept_.back();
}

v1::TopLogprobs TopOf(std::span<const float> logprobs, int32_t count) {
  std::vector<int32_t> order(logprobs.size());
  std::iota(order.begin(), order.end(), 0);
  const size_t n = std::min<size_t>(count, order.size());
  std::partial_sort(order.begin(), order.begin() + n, order.end(), MoreLikely{logprobs});
  v1::TopLogprobs top;
  for (size_t i = 0; i < n; ++i) {
    v1::TopLogprob& entry = *top.add_entries();
    entry.set_token_id(order[i]);
    entry.set_logprob(logprobs[order[i]]);
  }
  return top;
}

}  // namespace ingot::rollout
