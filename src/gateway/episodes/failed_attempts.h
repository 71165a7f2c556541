// Counts the failed attempts at an episode's sample.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "datapool/client.h"
#include "proto/tree.pb.h"

namespace ingot::gateway {

// Returns how many of the attempts before the episode's own are stored as FAILED or INFRASTRUCTURE_FAILED. Seeds are
// derived from this number, so an attempt that replaces a lost one draws the same tokens again, and an attempt that
// replaces a failed one draws others. Blocks on the pool, unless the attempt is the sample's first.
absl::StatusOr<int32_t> FailedAttemptsBefore(datapool::Client& pool, const v1::Episode& episode);

}  // namespace ingot::gateway
