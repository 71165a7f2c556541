// Distinguishes calls that ended from calls that were cut off.
#pragma once

#include "proto/tree.pb.h"

namespace ingot::tree {

// Returns true if the call was cut off because its client, its engine, or its gateway was lost. A call is recorded as
// PAUSED only until its gateway records the rest.
inline bool BrokeOff(const v1::Call& call) {
  return call.finish() == v1::FINISH_ABORTED || call.finish() == v1::FINISH_ERROR || call.finish() == v1::FINISH_PAUSED;
}

}  // namespace ingot::tree
