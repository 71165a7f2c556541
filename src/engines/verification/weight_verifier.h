// Checks whether a server samples from the weights that it should have loaded. Ingot scores a few ids with its own
// model before the weights are sent (WeightReference), and the server scores the same ids after it has loaded them.
//
// A label cannot prove this, because the server only repeats it. Verification detects tensors that the loader skipped,
// partial updates, a different precision, and prefix caches from earlier weights. Each prompt is scored, which computes
// every position, and also continued by one sampled id, which may use the prefix cache. The two means are compared
// separately.
//
// ADAPTERS are verified by sampled ids alone: the server continues each prompt by a few ids, which Ingot then scores.
// Other requests run meanwhile, and vLLM 0.32.0 for CPUs exits when it scores given ids under an adapter beside them.
// The prompt's positions count too, because the sampled ids attend to them.
//
// Early in training, consecutive versions of a tensor may differ by less than bf16 rounding. Therefore, the TRIAL LOAD
// after each server start loads weights in which every tensor is very different.
//
// Not thread safe, except for Verify and VerifyTrial.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "engines/api/engine_api.h"
#include "engines/server/server_control.h"
#include "engines/verification/weight_reference.h"
#include "weights/snapshot.h"

namespace ingot::engines {

// What a server reports for one prompt.
struct ServerScores {
  std::vector<float> logprobs;  // log-probs of ids 1 to n - 1
  int32_t sampled = -1;         // the id after the last one
  float sampled_logprob = 0;
};

// The ids that a server sampled after one prompt, at temperature 1.
struct ServerSample {
  std::vector<int32_t> ids;
  std::vector<float> logprobs;  // one per id
};

// The absolute differences between a server's log-probs and Ingot's.
struct ScoreDifference {
  double scored_mean = 0;   // over the prompts' ids; 0 = they were not scored
  double sampled_mean = 0;  // over the sampled ids
  double max = 0;
  float server = 0, reference = 0;  // the log-probs that differ the most
  int64_t tokens = 0, sampled = 0;  // all, and those that the server sampled

  double worst_mean() const;
  std::string Text() const;
};

// Returns four prompts of up to 33 ids. They are the same for every version, to detect a server that reuses an earlier
// version's KV cache.
std::vector<std::vector<int32_t>> VerificationPrompts(const ServedModel& model);

// Returns the differences. A log-prob that is missing or NaN counts as an infinite difference.
ScoreDifference DifferenceOf(const std::vector<PromptScores>& reference, const std::vector<ServerScores>& server);
// Same, for ids that the server sampled. `reference` has only the scores of these ids.
ScoreDifference DifferenceOfSamples(const std::vector<PromptScores>& reference,
                                    const std::vector<ServerSample>& server);
// Returns the mean absolute difference between two versions' log-probs for the same ids.
double DistanceOf(const std::vector<PromptScores>& a, const std::vector<PromptScores>& b);

// Returns the largest mean difference that can come from rounding in the weights' type: 1e-4 for fp32, 0.15 for others.
double RoundingBound(const weights::Snapshot& snapshot);

// Returns the largest mean difference that rounding can cause after a trial load. It is a share of the distance between
// the scores of the perturbed and the original weights, because small logits also give small differences.
double TrialBound(const weights::Snapshot& perturbed, const std::vector<PromptScores>& expected,
                  const std::vector<PromptScores>& given);
// Same, for a trial load of an adapter. In narrow types it is larger: an adapter moves the log-probs less than all
// weights do, so rounding is a larger share.
double AdapterTrialBound(const weights::Snapshot& perturbed, const std::vector<PromptScores>& expected,
                         const std::vector<PromptScores>& given);

class WeightVerifier {
 public:
  // `bound` limits the mean difference; 0 = RoundingBound. REQUIRES: `reference` and `model` outlive this object.
  WeightVerifier(WeightReference& reference, const ServedModel& model, double bound)
      : reference_(reference), model_(model), bound_(bound), prompts_(VerificationPrompts(model)) {}

  // Returns Ingot's scores, which Verify compares with the server's.
  absl::StatusOr<std::vector<PromptScores>> Expect(const std::shared_ptr<const weights::Snapshot>& snapshot);
  // Returns weights for the trial load.
  absl::StatusOr<std::shared_ptr<const weights::Snapshot>> Perturb(
      const std::shared_ptr<const weights::Snapshot>& snapshot) {
    return reference_.Perturb(snapshot);
  }

  // Compares the server with the expected scores. Returns DATA_LOSS, with the numbers, if the server samples from
  // different weights, and ServerControl's errors if it does not respond. `served` is what requests to them use.
  // Several threads may call it at a time. REQUIRES: the server has been resumed.
  absl::StatusOr<ScoreDifference> Verify(ServerControl& control, const weights::Snapshot& snapshot,
                                         const ServedWeights& served, const std::vector<PromptScores>& expected,
                                         std::chrono::milliseconds timeout) const;
  // Same as Verify, but for the trial load, with TrialBound. Returns FAILED_PRECONDITION if a part of the perturbed
  // weights did not reach the server.
  absl::StatusOr<ScoreDifference> VerifyTrial(ServerControl& control, const weights::Snapshot& perturbed,
                                              const ServedWeights& served, const std::vector<PromptScores>& expected,
                                              const std::vector<PromptScores>& given,
                                              std::chrono::milliseconds timeout) const;

  // Same as Verify and VerifyTrial, but by sampled ids, for versions that the server holds as adapters. They score the
  // ids with Ingot's model. `given` are the weights that `perturbed` was made from.
  absl::StatusOr<ScoreDifference> VerifySamples(ServerControl& control,
                                                const std::shared_ptr<const weights::Snapshot>& snapshot,
                                                const ServedWeights& served, std::chrono::milliseconds timeout);
  absl::StatusOr<ScoreDifference> VerifyTrialSamples(ServerControl& control,
                                                     const std::shared_ptr<const weights::Snapshot>& perturbed,
                                                     const std::shared_ptr<const weights::Snapshot>& given,
                                                     const ServedWeights& served, std::chrono::milliseconds timeout);

 private:
  // Returns `found`, or an error if it is larger than the version's bound.
  absl::StatusOr<ScoreDifference> Judge(const ServerControl& control, const weights::Snapshot& snapshot,
                                        const ScoreDifference& found) const;
  // Same for a trial load, whose bound is `rounding`. Weights that hardly differ (`distance`) pass.
  absl::StatusOr<ScoreDifference> JudgeTrial(const ServerControl& control, const ScoreDifference& found,
                                             double distance, double rounding) const;
  absl::StatusOr<std::vector<PromptScores>> Score(const std::shared_ptr<const weights::Snapshot>& snapshot,
                                                  const std::vector<std::vector<int32_t>>& sequences);
  // Returns the scores of the sampled ids alone.
  absl::StatusOr<std::vector<PromptScores>> ScoresOf(const std::vector<ServerSample>& samples,
                                                     const std::shared_ptr<const weights::Snapshot>& snapshot);
  absl::StatusOr<std::vector<ServerSample>> Sample(ServerControl& control, const ServedWeights& served,
                                                   std::chrono::milliseconds timeout) const;
  absl::StatusOr<std::vector<ServerScores>> Ask(ServerControl& control, const ServedWeights& served,
                                                std::chrono::milliseconds timeout) const;

  WeightReference& reference_;
  const ServedModel& model_;
  const double bound_;
  const std::vector<std::vector<int32_t>> prompts_;
};

}  // namespace ingot::engines
