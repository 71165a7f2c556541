// Draws ids from a version's draft head (model/draft_head.h) with the requests' own races, one pass of the head per
// depth for all requests. Called on the step thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "rollout/engine/model_runner.h"
#include "rollout/engine/sequence.h"
#include "rollout/sampling/sampling.h"

namespace ingot::rollout {

class HeadDraws {
 public:
  struct One {
    const Sequence* sequence = nullptr;
    size_t tokens = 0;  // the ids follow this number of the sequence's tokens, at least 1 of which is sampled
    size_t slot = 0;    // of the hidden state from which the last of these was sampled (ModelRunner::KeepHidden)
    size_t most = 0;    // > 0
    std::vector<int32_t>* ids = nullptr;  // empty before
  };

  // `shadow`: uses the versions' shadow heads. `sharpness` is the exponent of the head's probabilities.
  HeadDraws(ModelRunner& runner, float sharpness, bool shadow)
      : runner_(runner), sharpness_(sharpness), shadow_(shadow) {}

  // Draws `most` ids for each. After an error, some have fewer. REQUIRES: all of `ones` use `version`.
  absl::Status Draw(const WeightVersion& version, std::span<const One> ones);

 private:
  // Runs one depth for the requests in `rows_` and keeps those that continue.
  absl::Status DrawDepth(const WeightVersion& version, std::span<const One> ones, size_t depth);

  ModelRunner& runner_;
  const float sharpness_;
  const bool shadow_;
  Sampler sampler_;
  DraftBatch batch_;
  std::vector<size_t> rows_;  // the batch's requests, as indices into `ones`
};

}  // namespace ingot::rollout
