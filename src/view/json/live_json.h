// Adds a live run's roles to a page response. Pure function.
#pragma once

#include "base/json.h"
#include "view/runs/run_source.h"

namespace ingot::view {

// Adds "trainer" (its current work), "engines", "scheduler" or "scheduler_error", and "agents_idle_share". Roles that
// the run does not have are omitted.
void AddLive(const LiveState& live, const RunFacts& facts, base::json::object& run);

}  // namespace ingot::view
