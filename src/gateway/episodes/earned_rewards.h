// Stores the rewards, signals, and facts that the pool has for an episode, and the number of the last reward. Not
// thread safe: Episode holds its lock while calling it.
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
  // Reads the values from the record of an episode that an earlier gateway served.
  explicit EarnedRewards(const v1::Episode& record);

  // Returns true if the episode itself has a reward. Call rewards do not count.
  bool has_own() const { return values_.has_reward(); }
  bool any() const { return values_.has_reward() || !values_.call_rewards().empty(); }
  // Assigns a number to a reward that is about to be stored. Numbers follow the order of reward turns. Fails with 400
  // if the episode would have too many signals or facts, or more than `max_calls` rewarded calls.
  absl::Status Number(v1::StoreRewardRequest& reward, int max_calls);
  // Called when the pool has stored the reward. A later value for a signal or call replaces the earlier one.
  void Count(const v1::StoreRewardRequest& stored) { values_.MergeFrom(stored); }
  // Merges the pool's record of the episode, which may have a reward whose response was lost. The record must have been
  // read under this gateway's token.
  void NoteStored(const v1::Episode& stored);
  void CopyTo(v1::StoreEndRequest& end) const;

 private:
  v1::StoreRewardRequest values_;
  int64_t number_ = 0;  // StoreRewardRequest.number of the last reward
};

// Returns INVALID_ARGUMENT if a reward is out of bounds (tree/reward_bounds.h, tree/signal_bounds.h). The error names
// the field.
absl::Status CheckRewards(const v1::EpisodeRewardRequest& posted);
// Same as CheckRewards, but for EpisodeEndRequest.unless_rewarded.
absl::Status CheckDefault(const v1::DefaultOutcome& outcome);

}  // namespace ingot::gateway
