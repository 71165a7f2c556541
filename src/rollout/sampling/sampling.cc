#include "rollout/sampling/sampling.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <numeric>

namespace ingot::rollout {

namespace {

struct MoreLikely {
  std::span<const float> logprobs;
  bool operator()(int64_t a, int64_t b) const { return logprobs[a] != logprobs[b] ? logprobs[a] > logprobs[b] : a < b; }
};

absl::Status Reject(const char* field, double value, const char* allowed) {
  return absl::InvalidArgumentError(absl::StrCat("sampling.", field, " is ", value, "; it must be ", allowed));
}

}  // namespace

absl::Status ValidateSampling(const v1::SamplingParams& params) {
  // Written so that NaN fails.
  if (!(params.temperature() >= 0 && params.temperature() <= 100)) {
    return Reject("temperature", params.temperature(), "between 0 and 100");
  }
  if (params.temperature() > 0 && params.temperature() < 1e-3f) {
    return Reject("temperature", params.temperature(), "0 (greedy) or at least 0.001");
  }
  if (!(params.top_p() >= 0 && params.top_p() <= 1)) return Reject("top_p", params.top_p(), "between 0 and 1");
  if (!(params.min_p() >= 0 && params.min_p() <= 1)) return Reject("min_p", params.min_p(), "between 0 and 1");
  if (params.top_k() < 0) return Reject("top_k", params.top_k(), "0 (off) or more");
  if (params.max_new_tokens() <= 0) return Reject("max_new_tokens", params.max_new_tokens(), "at least 1");
  return absl::OkStatus();
}

DrawOptions DrawOptions::From(const v1::SamplingParams& params) {
  return {.temperature = params.temperature(),
          .top_k = params.top_k(),
          .top_p = params.top_p(),
          .min_p = params.min_p(),
          .seed = params.seed()};
}

absl::StatusOr<int32_t> Sampler::Draw(const ShapedRow& row, const DrawOptions& options, int64_t index) {
  const int64_t place = options.temperature == 0 ? kernels::MostLikely(row.logprobs.data(), std::ssize(row.logprobs))
                                                 : DrawPlace(row, options, RaceSeed(options, index));
  if (place < 0) {
    return absl::FailedPreconditionError(
        "no token is left to sample: sampling.logit_bias and the grammar exclude every possible next token");
  }
  return row.ids.empty() ? static_cast<int32_t>(place) : row.ids[static_cast<size_t>(place)];
}

int64_t Sampler::DrawPlace(const ShapedRow& row, const DrawOptions& options, uint64_t seed) {
  const float* entries = row.logprobs.data();
  const int64_t count = std::ssize(row.logprobs);
  const kernels::RaceRow race{entries, count, row.ids.empty() ? nullptr : row.ids.data()};
  const bool nucleus = options.top_p > 0 && options.top_p < 1;
  kernels::RaceCut cut;
  if (options.top_k > 0 && options.top_k < count) cut = TopK(row.logprobs, static_cast<size_t>(options.top_k));
  if (!nucleus && options.min_p == 0) return kernels::Race(race, seed, cut);

  const int64_t most_likely = kernels::MostLikely(entries, count);
  if (most_likely < 0) return -1;
  const float top = entries[most_likely];
  const double needed = nucleus ? options.top_p * kernels::MassOf(entries, count, cut, top) : 0;
  if (options.min_p > 0) {
    const auto floor = static_cast<float>(top + kernels::Log(options.min_p));
    if (floor > cut.floor) cut = {.floor = floor};
  }
  // The nucleus contains the tokens with less than p of the sum before them. If the winner among all tokens is in the
  // nucleus, it is also the winner within the nucleus. Otherwise, equally or less likely tokens are not in it either,
  // and the race reruns without them. On average, each run halves the remaining sum.
  for (;;) {
    const int64_t winner = kernels::Race(race, seed, cut);
    if (winner < 0 || !nucleus) return winner;
    cut = {.floor = entries[winner], .split = winner};
    if (!(kernels::MassOf(entries, count, cut, top) >= needed)) return winner;  // NaN ends the loop
  }
}

// Finds the largest entry in each of several interleaved parts of the row. The k-th largest of these is no larger than
// the row's k-th largest entry, so few entries remain to be compared.
kernels::RaceCut Sampler::TopK(std::span<const float> row, size_t k) {
  const size_t parts = std::max<size_t>(1024, std::bit_ceil(4 * k));
  float bound = std::numeric_limits<float>::lowest();
  if (4 * parts <= row.size()) {
    tops_.assign(parts, bound);
    for (size_t begin = 0; begin < row.size(); begin += parts) {
      const size_t n = std::min(parts, row.size() - begin);
      const float* entries = row.data() + begin;
      for (size_t i = 0; i < n; ++i) tops_[i] = entries[i] > tops_[i] ? entries[i] : tops_[i];
    }
    std::nth_element(tops_.begin(), tops_.begin() + static_cast<ptrdiff_t>(k) - 1, tops_.end(), std::greater<>());
    bound = tops_[k - 1];
  }
  const int64_t count = std::ssize(row);
  const auto next = [&](int64_t from) { return kernels::NextAtLeast(row.data(), from, count, bound); };
  places_.clear();
  for (int64_t place = next(0); place < count; place = next(place + 1)) places_.push_back(place);
  if (places_.size() <= k) return {.floor = bound};
  const auto last = places_.begin() + static_cast<ptrdiff_t>(k) - 1;
  std::nth_element(places_.begin(), last, places_.end(), MoreLikely{row});
  return {.floor = row[static_cast<size_t>(*last)], .split = *last + 1};
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
