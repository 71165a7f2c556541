// Sampler draws one token from a row of log-probs by a race (kernels/draws/race.h). A policy's row holds
// log_softmax(logits / T) over the vocabulary, with T = 1 for a temperature of 0. Penalties, masks and truncation
// change which tokens may be drawn, and how often. They never change the recorded log-prob.
//
// Truncation has three steps, in this order:
//   top_k  keeps the k most likely tokens.
//   top_p  keeps the most likely of these until their share of the sum reaches p; the token that crosses p stays.
//   min_p  keeps tokens with at least min_p times the largest probability.
// Of two tokens with equal probability the smaller id counts as more likely.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "kernels/draws/race.h"
#include "proto/rollout.pb.h"

namespace ingot::rollout {

// INVALID_ARGUMENT names the field and its allowed values.
absl::Status ValidateSampling(const v1::SamplingParams& params);

// The parameters of one request's draws, as v1::SamplingParams defines them.
struct DrawOptions {
  float temperature = 0;  // 0 = greedy
  int32_t top_k = 0;      // 0 = no limit
  float top_p = 0;        // 0 = no limit
  float min_p = 0;        // 0 = no limit
  uint64_t seed = 0;

  static DrawOptions From(const v1::SamplingParams& params);
};

// The distribution from which a token is drawn.
struct ShapedRow {
  std::span<const float> logprobs;  // plus any constant; -inf = never drawn
  std::span<const int32_t> ids;     // of the entries, ascending; empty = entry i is id i
};

// Greedy at temperature 0. Otherwise a draw is a function of the row and (seed, index): the rest of the batch does not
// influence it, nor do the number of entries and their constant. Removing a token from the row changes only the draws
// of that token. Single-threaded; keeps scratch memory.
class Sampler {
 public:
  // The id drawn. `index` counts the request's sampled tokens from 0. FAILED_PRECONDITION: nothing may be drawn.
  absl::StatusOr<int32_t> Draw(const ShapedRow& row, const DrawOptions& options, int64_t index);

 private:
  int64_t DrawPlace(const ShapedRow& row, const DrawOptions& options, uint64_t seed);
  kernels::RaceCut TopK(std::span<const float> row, size_t k);

  // Scratch.
  std::vector<float> tops_;
  std::vector<int64_t> places_;
};

// The `count` most likely tokens with their log-probs, most likely first.
v1::TopLogprobs TopOf(std::span<const float> logprobs, int32_t count);

}  // namespace ingot::rollout
