// Prepares a batch for the forward pass: collects every loss-bearing call with its advantage and weight. Detects all
// errors in the trees before any gradient is computed. Pure functions that do not use torch.
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

// The model's token limits.
struct TokenLimits {
  TokenLimits(int64_t vocab,
              int64_t tokens = std::numeric_limits<int64_t>::max())  // NOLINT(google-explicit-constructor)
      : vocab_size(vocab), max_tokens(tokens) {}
  int64_t vocab_size;  // ids are in [0, vocab_size)
  int64_t max_tokens;  // per call, including its context
  // Limits for recorded routes: experts per layer, and experts per token in one layer and in all layers. 0 = no
  // experts.
  int64_t experts = 0, experts_per_token = 0, routes_per_token = 0;
};

// Loss-bearing calls, and parallel vectors of advantages and weights. A call's episode is its sequence (objective.h).
struct PreparedBatch {
  std::vector<tree::CallPath> calls;
  // Per call: one byte per sampled token, 1 = bears loss. Empty = all tokens bear loss.
  std::vector<std::vector<uint8_t>> bears_loss;
  std::vector<double> advantages;  // per call: the advantage of its turn, shared by all its loss tokens
  // Per call: the grade's additional advantage for each sampled token (tree/token_advantages.h). Empty = none.
  std::vector<std::vector<double>> token_advantages;
  std::vector<double> weights;          // per call: TokenWeights
  std::vector<Preference> preferences;  // pairs of sequences; empty unless the objective is dpo
  int32_t episodes = 0;                 // finished training episodes and trunks, with or without loss tokens
  int64_t loss_tokens = 0;
  std::string empty_reason;  // why loss_tokens is 0; empty otherwise
  // Names the first reward beyond tree::kMaxReward, which makes the batch unusable for a step. Empty = none.
  std::string reward_fault;
  int64_t unmerged_tokens = 0;  // context and sampled tokens of every call, without merging
  // reward/*, batch/*, and the metrics of EpisodeMetrics.
  StepMetrics metrics;
  std::vector<std::pair<int64_t, int64_t>> staleness_histogram;
  ExpertLoads expert_loads;  // copied to StepReport after the step
};

// PrepareBatch excludes the following from the loss and counts them under batch/*, before any normalizer is computed:
//
//   episodes_left_out         episodes that did not finish or are not for training, trunks without leaves, and leaves
//                             of a retried trunk
//   calls_left_out_weights    calls that did not follow the run's weights
//   calls_left_out_flagged    calls whose sampling was changed by a penalty, bias, or grammar
//   calls_empty               calls without a sampled token
//   calls_left_out_truncated  with truncated mask_call, other calls that ended at a length limit; with mask_episode,
//                             all other calls of an episode (or trunk) that contains one
//   tokens_left_out_age       tokens older than train_segments allows
//   groups_filtered           groups without any advantage, if filter_zero_variance is set
//   episodes_unpaired         with objective dpo, episodes that are not in a pair
//
// Trunks (branch_advantage.h) are trained on like finished episodes, as separate episodes. Their tokens count once in
// every normalizer, and batch/trunks counts them. Episode metrics treat a leaf and its trunk as one episode.
//
// Every finished training episode's reward counts toward the baseline, even if no part of the episode bears loss.
//
// With objective dpo, each group yields one preference among its episodes with loss tokens: the episode with the
// highest return over the one with the lowest. Ties go to the first episode.
//
// Returns INVALID_ARGUMENT or DATA_LOSS, naming the call (or episode, or group) and the problem, for:
// - a missing segment, an id outside the vocabulary, or more tokens than the model has positions
// - routes that do not match the model's experts
// - a log-prob that is not finite or is above 0, a temperature that is not above 0, or a version newer than `version`
// - a reward that is not finite, or is for a call that is not in the episode
// - no groups, or the wrong number of groups or samples
//
// A valid batch that bears no loss is not an error: see empty_reason. A finite reward beyond the bound, which an older
// pool may contain, is not an error either: see reward_fault.
absl::StatusOr<PreparedBatch> PrepareBatch(const TrainBatch& batch, const TrainerOptions& options,
                                           const TokenLimits& limits, int64_t version);

// Prepares conversations for supervised training. Advantages are 1, and the loss is the mean over all target tokens.
// Recorded log-probs and versions may be absent and are replaced with zeros. Checks ids as PrepareBatch does. Returns
// FAILED_PRECONDITION if there is no target token.
absl::StatusOr<PreparedBatch> PrepareSft(std::vector<tree::CallPath> calls, const TokenLimits& limits);

// Prepares pairs of conversations for DPO: the calls of episode 2i are preferred to those of episode 2i + 1. Same
// errors as PrepareSft, and INVALID_ARGUMENT for a pair that has target tokens on only one side.
absl::StatusOr<PreparedBatch> PreparePairs(std::vector<tree::CallPath> calls, const TokenLimits& limits);

// Returns INVALID_ARGUMENT, naming the call and its first error. If `recorded`, log-probs, versions, kv_mixed, and any
// routes must cover the sampled tokens.
absl::Status CheckCall(const tree::CallPath& call, const TokenLimits& limits, bool recorded);

// Returns whether the token at `offset` was sampled by `version` alone, with unmixed KV. REQUIRES: CheckCall passed
// with `recorded`.
inline bool OnPolicy(const tree::CallPath& call, size_t offset, int64_t version) {
  return call.versions[offset] == version && call.kv_mixed[offset] == 0;
}

}  // namespace ingot::trainer
