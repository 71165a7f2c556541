// Samples one token from a row of log-probs with a race (kernels/draws/race.h). A policy's row has log_softmax(logits /
// T) over the vocabulary, with T = 1 for a temperature of 0. Penalties, masks, and truncation change the sampling
// probabilities but never the recorded log-prob.
//
// Truncation has three steps, in this order:
//   top_k  keeps the k most likely tokens.
//   top_p  keeps the most likely of these until their share of the sum reaches p, including the token that crosses p.
//   min_p  keeps tokens with at least min_p times the largest probability.
// If two tokens are equally likely, the smaller id counts as more likely.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/rng.h"
#include "base/status.h"
#include "kernels/draws/race.h"
#include "proto/rollout.pb.h"

namespace ingot::rollout {

// Returns INVALID_ARGUMENT with the field and the allowed values.
absl::Status ValidateSampling(const v1::SamplingParams& params);

// A request's sampling parameters, as defined in v1::SamplingParams.
struct DrawOptions {
  float temperature = 0;  // 0 = greedy
  int32_t top_k = 0;      // 0 = no limit
  float top_p = 0;        // 0 = no limit
  float min_p = 0;        // 0 = no limit
  uint64_t seed = 0;

  // Returns whether a race over all ids draws the token.
  bool races_over_all() const { return temperature > 0 && top_k == 0 && (top_p == 0 || top_p == 1) && min_p == 0; }

  static DrawOptions From(const v1::SamplingParams& params);
};

// Returns the seed of the race that draws the request's token `index`.
inline uint64_t RaceSeed(const DrawOptions& options, int64_t index) {
  return base::DeriveSeed(options.seed, static_cast<uint64_t>(index));
}

// The distribution from which a token is sampled.
struct ShapedRow {
  std::span<const float> logprobs;  // up to a constant offset; -inf = never sampled
  std::span<const int32_t> ids;     // ids of the entries, ascending; empty = entry i is id i
};

// Draws tokens. Greedy at temperature 0. Otherwise, the result depends only on the row and (seed, index), not on the
// other rows in the batch, the number of entries, or their constant offset. Removing a token from the row changes only
// the draws that would have returned it. Not thread safe: keeps scratch memory.
class Sampler {
 public:
  // Returns the sampled id. `index` counts the request's sampled tokens from 0. Returns FAILED_PRECONDITION if no id
  // may be sampled.
  absl::StatusOr<int32_t> Draw(const ShapedRow& row, const DrawOptions& options, int64_t index);

 private:
  int64_t DrawPlace(const ShapedRow& row, const DrawOptions& options, uint64_t seed);
  kernels::RaceCut TopK(std::span<const float> row, size_t k);

  // Scratch memory.
  std::vector<float> tops_;
  std::vector<int64_t> places_;
};

// Returns the `count` most likely tokens with their log-probs, most likely first.
v1::TopLogprobs TopOf(std::span<const float> logprobs, int32_t count);

}  // namespace ingot::rollout
