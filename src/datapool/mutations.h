// The pool's mutations as stages of a commit: each checks the stored state and changes it. proto/datapool.proto says
// what they mean. Requests were validated before.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "datapool/database.h"
#include "datapool/keys.h"
#include "datapool/recent_calls.h"
#include "proto/datapool.pb.h"

namespace ingot::datapool {

absl::Status StageOpenEpisode(Database::Batch& batch, v1::PoolStatusResponse& counters,
                              const v1::OpenEpisodeRequest& request, int64_t unix_ns);

absl::Status StageRewardEpisode(Database::Batch& batch, const v1::RewardEpisodeRequest& request);

absl::Status StageEndEpisode(Database::Batch& batch, const v1::EndEpisodeRequest& request);

// A call ready to be staged: what can be computed before its turn, is.
struct PreparedCall {
  struct NewSegment {
    SegmentInfo info;
    std::string bytes;
  };
  const v1::Call* call = nullptr;
  std::string bytes;
  std::map<std::string, NewSegment> segments;  // by content key
};
// INVALID_ARGUMENT if a segment is sent that the call does not name. REQUIRES: `request` outlives the result.
absl::StatusOr<PreparedCall> PrepareCall(const v1::AppendCallRequest& request);
// `recent`: looked at before the database. `tail`: what it is to be told of this call, once it is durable.
absl::Status StageAppendCall(Database::Batch& batch, v1::PoolStatusResponse& counters, const PreparedCall& prepared,
                             const RecentCalls& recent, CallTail& tail);

absl::Status StageAppendJournal(Database::Batch& batch, v1::PoolStatusResponse& counters,
                                const v1::AppendJournalRequest& request, int64_t unix_ns, int64_t& first_index);

// Deletes the episode at that key of `order`, its calls, and the segments that no other episode uses. OK if it is gone.
absl::Status StageDeleteEpisode(Database::Batch& batch, v1::PoolStatusResponse& counters, const std::string& order_key);

// Equal messages give equal bytes, maps included.
std::string Canonical(const google::protobuf::MessageLite& message);

}  // namespace ingot::datapool
