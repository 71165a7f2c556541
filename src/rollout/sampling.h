// Sampler draws one token from a row of log-probs. The row holds log_softmax(logits / T) over the vocabulary, with T = 1
// for a temperature of 0. Truncation changes which tokens may be drawn. It never changes the recorded log-prob.
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

// Greedy at temperature 0. Otherwise it inverts the distribution at one uniform number, a function of (seed, index)
// alone: the rest of the batch does not influence a draw. Single-threaded; keeps scratch memory.
class Sampler {
 public:
  // An index into `logprobs`, which is not empty. `index` counts the request's sampled tokens from 0. `mass` is the sum
  // of the row's probabilities.
  int32_t Draw(std::span<const float> logprobs, const DrawOptions& options, int64_t index, double mass = 1);

 private:
  int32_t DrawTruncated(std::span<const float> logprobs, const DrawOptions& options, double uniform);

  // Scratch.
  std::vector<int32_t> order_, kept_;
  std::vector<double> weights_;
};

// The `count` most likely tokens with their log-probs, most likely first.
v1::TopLogprobs TopOf(std::span<const float> logprobs, int32_t count);

}  // namespace ingot::rollout
