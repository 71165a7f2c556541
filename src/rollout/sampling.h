// Drawing one token from a policy row. The row holds log_softmax(logits / T) over the vocabulary (T = 1 where the
// request's temperature is 0); truncation changes what may be drawn, never the recorded log-prob.
//
// Truncation, in this order: top_k keeps the k most likely; top_p keeps the fewest of those, most likely first, whose
// share of their total reaches p (the one that crosses p included); min_p keeps those with at least min_p times the
// largest probability. Among equals the smaller id counts as more likely.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "proto/rollout.pb.h"

namespace ingot::rollout {

// INVALID_ARGUMENT names the field and what it may be.
absl::Status ValidateSampling(const v1::SamplingParams& params);

// Chooses tokens. Called by the step thread alone; an implementation may keep state and scratch memory.
class Sampler {
 public:
  virtual ~Sampler() = default;

  struct Draw {
    std::span<const float> logprobs;  // [vocabulary, or what of it may be drawn]
    const v1::GenerateRequest* request = nullptr;
    int64_t index = 0;  // of the token to sample in its request, from 0
    double mass = 1;    // what the probabilities sum to
  };
  virtual int32_t Sample(const Draw& draw) = 0;
};

// The policy's own sampler: greedy at temperature 0, else by inversion with one uniform number that is a function of
// (request's seed, index) alone. What else is in the batch changes nothing.
class PolicySampler final : public Sampler {
 public:
  int32_t Sample(const Draw& draw) override;

 private:
  int32_t SampleTruncated(std::span<const float> logprobs, const v1::SamplingParams& params, double uniform);

  std::vector<int32_t> order_, kept_;  // scratch
  std::vector<double> weights_;
};

// The `count` most likely tokens, most likely first, with their log-probs.
v1::TopLogprobs TopOf(std::span<const float> logprobs, int32_t count);

}  // namespace ingot::rollout
