// The roles of a live run, as fields of its page's answer. Pure.
#pragma once

#include "base/json.h"
#include "view/run_source.h"

namespace ingot::view {

// Adds "trainer" (what it computes), "engines", "scheduler" or "scheduler_error", and "agents_idle_share", as far as the run has such roles.
void AddLive(const LiveState& live, const RunFacts& facts, base::json::object& run);

}  // namespace ingot::view
