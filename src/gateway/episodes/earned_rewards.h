// The rewards, signals and facts of an episode that the pool has stored, and the number of the last reward. Not thread
// safe: Episode calls it under its lock.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "proto/datapool.pb.h"
#include "proto/gateway.pb.h"
#include "proto/tree.pb.h"

namespace ingot::gateway {

class EarnedRewards {
 public:
  EarnedRewards() = default;
  // Those in the record of an episode that an earlier gateway served.
  explicit EarnedRewards(const v1::Episode& record);

  bool has_own() const { return values_.has_reward(); }  // the episode's reward, not one of a call
  bool any() const { return values_.has_reward() || !values_.call_rewards().empty(); }
  // Numbers a reward that is about to be stored. Numbers follow the order of turns. 400: with it the episode would have
  // too many signals or facts, or more than `max_calls` rewarded calls.
  absl::Status Number(v1::StoreRewardRequest& reward, int max_calls);
  // The pool has stored it. Later values of a signal or call replace earlier values.
  void Count(const v1::StoreRewardRequest& stored) { values_.MergeFrom(stored); }
  // Takes the pool's record of the episode under this gateway's token. It may have a reward whose response was lost.
  void NoteStored(const v1::Episode& stored);
  void CopyTo(v1::StoreEndRequest& end) const;

 private:
  v1::StoreRewardRequest values_;
  int64_t number_ = 0;  // StoreRewardRequest.number of the last one
};

// INVALID_ARGUMENT names the field of rewards that are out of bounds (tree/reward_bounds.h, tree/signal_bounds.h).
absl::Status CheckRewards(const v1::EpisodeRewardRequest& posted);
// The same of EpisodeEndRequest.unless_rewarded.
absl::Status CheckDefault(const v1::DefaultOutcome& outcome);

}  // namespace ingot::gateway
