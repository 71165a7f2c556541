// Stages AppendCall in a commit: checks a call against the stored state and adds it. proto/datapool.proto defines its
// semantics and errors. REQUIRES: datapool/validate.h accepted the request.
#pragma once

#include <map>
#include <string>

#include "base/status.h"
#include "datapool/database.h"
#include "datapool/keys.h"
#include "datapool/recent_calls.h"
#include "proto/datapool.pb.h"

namespace ingot::datapool {

// A call and all values that can be computed before its turn in the commit queue.
struct PreparedCall {
  struct NewSegment {
    SegmentInfo info;
    std::string bytes;
  };
  const v1::Call* call = nullptr;
  int64_t gateway_token = 0;
  std::string bytes;
  std::map<std::string, NewSegment> segments;  // included in the request, by content key
};

// Returns INVALID_ARGUMENT if the request has a segment that its call does not reference. REQUIRES: `request` outlives
// the result.
absl::StatusOr<PreparedCall> PrepareCall(const v1::AppendCallRequest& request);

// Looks for the parent call in `recent`, then in the batch. Sets `summary` to the entry for RecentCalls, to be added
// once the commit is durable. Leaves `summary` empty if the call was already stored.
absl::Status StageAppendCall(Database::Batch& batch, v1::PoolStatusResponse& counters, const PreparedCall& prepared,
                             const RecentCalls& recent, CallSummary& summary);

}  // namespace ingot::datapool
