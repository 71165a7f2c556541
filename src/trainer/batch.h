// Preparation of a batch for the forward pass: every call that bears loss, with its advantage and weight. Pure
// functions; no torch. Every fault that a tree can have is found here, before a gradient is computed.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "trainer/batch_source.h"
#include "trainer/metrics.h"
#include "trainer/objectives/objective.h"
#include "trainer/options.h"
#include "tree/forest.h"

namespace ingot::trainer {

// The model's limits on tokens.
struct TokenLimits {
  TokenLimits(int64_t vocab,
              int64_t tokens = std::numeric_limits<int64_t>::max())  // NOLINT(google-explicit-constructor)
      : vocab_size(vocab), max_tokens(tokens) {}
  int64_t vocab_size;  // ids are in [0, vocab_size)
  int64_t max_tokens;  // of one call, context included
  // Of recorded routes: the experts of a layer, those that a token takes there, and in all layers. 0 = no experts.
  int64_t experts = 0, experts_per_token = 0, routes_per_token = 0;
};

// Loss-bearing calls and, side by side with them, their advantages and weights. A call's `episode` is its sequence
// (objective.h).
struct PreparedBatch {
  std::vector<tree::CallPath> calls;
  // Per call, one byte per sampled token: 1 = bears loss; empty = all tokens do.
  std::vector<std::vector<uint8_t>> bears_loss;
  std::vector<double> advantages;  // per call: its turn's advantage, the same for each of its loss tokens
  // Per call, the advantage that the grade adds to each sampled token (tree/token_advantages.h); empty = none.
  std::vector<std::vector<double>> token_advantages;
  std::vector<double> weights;          // per call: TokenWeights
  std::vector<Preference> preferences;  // pairs of sequences; empty unless the objective is dpo
  int32_t episodes = 0;                 // finished training episodes and trunks, with loss tokens or without
  int64_t loss_tokens = 0;
  std::string empty_reason;  // why loss_tokens is 0; empty otherwise
  // Names the first reward beyond tree::kMaxReward, which makes the batch unusable for a step. Empty = none.
  std::string reward_fault;
  int64_t unmerged_tokens = 0;  // context and sampled tokens of every call, nothing merged
  // reward/*, batch/* and what EpisodeMetrics reports.
  StepMetrics metrics;
  std::vector<std::pair<int64_t, int64_t>> staleness_histogram;
  ExpertLoads expert_loads;  // StepReport's, once the step has run
};

// PrepareBatch leaves out of the loss, and counts under batch/*, before any normalizer is counted:
//
//   episodes_left_out        episodes that did not finish or are not for training, trunks without leaves, and leaves of a
//                            retried trunk
//   calls_left_out_weights   calls that did not follow the run's weights
//   calls_left_out_flagged   calls whose sampling a penalty, bias or grammar changed
//   calls_empty              calls without a sampled token
//   calls_left_out_truncated  with truncated mask_call, other calls that ended at a length limit; with mask_episode, all
//                            other calls of an episode (or a trunk) that holds one
//   tokens_left_out_age      tokens older than train_segments allows
//   groups_filtered          groups without any advantage, if filter_zero_variance is set
//   episodes_unpaired        with objective dpo, episodes that are in no pair
//
// Trunks (branch_advantage.h) are trained like finished episodes, as separate episodes: their tokens count once in
// every normalizer, and batch/trunks counts them. Metrics of episodes see a leaf with its trunk.
//
// The reward of every finished training episode counts for the baseline, even if nothing of it bears loss.
//
// With objective dpo each group gives one preference among its episodes with loss tokens: the episode with the greatest
// return over the episode with the least. Of equal returns the first episode counts.
//
// INVALID_ARGUMENT or DATA_LOSS names the call (or episode, or group) and its fault:
// - a missing segment, an id outside the vocabulary, more tokens than the model has positions;
// - routes that do not fit the model's experts;
// - a log-prob that is not a number or is above 0, a temperature that is not above 0, a version newer than `version`;
// - a reward that is not finite, a reward of a call that the episode does not hold;
// - no groups, a wrong number of groups or samples.
//
// A valid batch in which nothing bears loss is not an error: see empty_reason. Nor is a finite reward beyond the bound,
// which an older pool may hold: see reward_fault.
absl::StatusOr<PreparedBatch> PrepareBatch(const TrainBatch& batch, const TrainerOptions& options,
                                           const TokenLimits& limits, int64_t version);

// Prepares conversations for supervised training: advantages are 1, and the loss is the mean over all target tokens.
// Zeros replace recorded log-probs and versions, which may be absent. Errors of ids as PrepareBatch;
// FAILED_PRECONDITION: no target token.
absl::StatusOr<PreparedBatch> PrepareSft(std::vector<tree::CallPath> calls, const TokenLimits& limits);

// Prepares pairs of conversations for DPO: the calls of episode 2i are preferred to the calls of episode 2i + 1. Errors
// as PrepareSft; INVALID_ARGUMENT also for a pair with target tokens on only one side.
absl::StatusOr<PreparedBatch> PreparePairs(std::vector<tree::CallPath> calls, const TokenLimits& limits);

// INVALID_ARGUMENT names the call and its first fault. `recorded`: log-probs, versions, kv_mixed and, if there are any,
// routes must cover the sampled tokens.
absl::Status CheckCall(const tree::CallPath& call, const TokenLimits& limits, bool recorded);

// Whether exactly `version` sampled the token at `offset`, with unmixed KV. REQUIRES: CheckCall, recorded.
inline bool OnPolicy(const tree::CallPath& call, size_t offset, int64_t version) {
  return call.versions[offset] == version && call.kv_mixed[offset] == 0;
}

}  // namespace ingot::trainer
