// Describes the window for display: its groups, starting with the oldest open one, with their samples, ages, and
// causes. Pure, except that it reads the pool.
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "datapool/client.h"
#include "view/runs/journal.h"
#include "view/runs/run_source.h"

namespace ingot::view {

// {"head", "window", "budget", "live_version", "unreleased": [...],
//  "groups": [{"group", "task", "state", "age_s", "in_window", "version", "straggler", "cause", "samples": [...]}]}
// A straggler is an open group that is more than twice as old as the median of the last groups that finished. For the
// first kMaxNamed stragglers, the cause describes how the oldest running sample spends its time (waits.h,
// DescribeTimeSpent). `engines_rest` is true if no engine currently has a call. `now_ns` is the current time in
// nanoseconds since the Unix epoch. Lists at most kMaxGroups groups. Errors come from the pool.
absl::StatusOr<base::json::object> WindowJson(const RunFacts& facts, const Journal& journal, datapool::Client& pool,
                                              int64_t now_ns, bool engines_rest);

inline constexpr size_t kMaxGroups = 2000;
inline constexpr size_t kMaxNamed = 8;  // each one requires reading a tree

}  // namespace ingot::view
