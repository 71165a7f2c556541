// From a batch of groups to what the forward pass needs: every call that bears loss, its advantage and its weight. Pure
// functions; no torch. Everything a tree can be wrong in is found here, before a gradient is computed.
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
#include "trainer/objective.h"
#include "trainer/options.h"
#include "tree/forest.h"

namespace ingot::trainer {

// What the model can take.
struct TokenLimits {
  TokenLimits(int64_t vocab,
              int64_t tokens = std::numeric_limits<int64_t>::max())  // NOLINT(google-explicit-constructor)
      : vocab_size(vocab), max_tokens(tokens) {}
  int64_t vocab_size;  // ids are in [0, vocab_size)
  int64_t max_tokens;  // of one call, context included
};

// Loss-bearing calls, side by side with what they weigh. A call's `episode` is its sequence (objective.h).
struct PreparedBatch {
  std::vector<tree::CallPath> calls;
  // Per call, which of its sampled tokens bear loss; empty: all of them.
  std::vector<std::vector<uint8_t>> bears_loss;
  std::vector<double> advantages;       // per call: that of its turn, for each of its loss tokens
  std::vector<double> weights;          // per call: TokenWeights
  std::vector<Preference> preferences;  // objective dpo
  int32_t episodes = 0;                 // finished training episodes, with loss tokens or without
  int64_t loss_tokens = 0;
  std::string empty_reason;     // why loss_tokens is 0, where it is
  int64_t unmerged_tokens = 0;  // context and sampled, of every call by itself
  // reward/*, batch/* and what EpisodeMetrics reports.
  StepMetrics metrics;
  std::vector<std::pair<int64_t, int64_t>> staleness_histogram;
};

// Left out of the loss, and counted under batch/*: episodes that did not finish or are not for training; calls that did
// not follow the run's weights (calls_left_out_weights) and calls whose sampling a penalty, bias or grammar acted on
// (calls_left_out_flagged); tokens older than train_segments allows (tokens_left_out_age); groups without any advantage
// where filter_zero_variance says so (groups_filtered); with objective dpo, episodes that are in no pair
// (episodes_unpaired). All of it before any normaliser is counted. The rewards of finished training episodes count for
// the baseline even then.
//
// Objective dpo prefers, in every group, the episode of the greatest return to that of the least, the first among
// equals, of those that have loss tokens.
//
// INVALID_ARGUMENT or DATA_LOSS names the call (or episode, or group) and what is wrong with it: missing segments, ids
// outside the vocabulary, more tokens than the model has positions, a log-prob that is not a number or above 0, a
// temperature that is not above 0, a version newer than `version`, a reward that is not finite or of a call that is not
// there, no groups, a wrong number of groups or samples. A sound batch of which nothing bears loss is no error: see
// empty_reason.
absl::StatusOr<PreparedBatch> PrepareBatch(const TrainBatch& batch, const TrainerOptions& options,
                                           const TokenLimits& limits, int64_t version);

// Conversations for supervised training: advantages 1, the mean over all target tokens. What was
// recorded is replaced by zeros (it may be absent). Same errors for ids.
absl::StatusOr<PreparedBatch> PrepareSft(std::vector<tree::CallPath> calls, const TokenLimits& limits);

// Pairs of conversations for DPO: the calls of episode 2i were preferred to those of episode 2i + 1. Same errors;
// INVALID_ARGUMENT too for a pair of which one side has no target tokens.
absl::StatusOr<PreparedBatch> PreparePairs(std::vector<tree::CallPath> calls, const TokenLimits& limits);

// INVALID_ARGUMENT names the call and its first fault. `recorded`: log-probs, versions and kv_mixed must cover the
// sampled tokens.
absl::Status CheckCall(const tree::CallPath& call, const TokenLimits& limits, bool recorded);

}  // namespace ingot::trainer
