// Sums the status of several engines.
#pragma once

#include "proto/rollout.pb.h"

namespace ingot::rollout {

// Adds an engine's counters to `sum`, which has those of other engines. The version is the oldest of all, and the held
// versions are those of the same engine.
void AddStatus(const v1::EngineStatusResponse& one, v1::EngineStatusResponse& sum);

}  // namespace ingot::rollout
