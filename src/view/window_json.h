// The window as a picture: its groups from the oldest open group on, with their samples, ages and causes. Pure except
// for reading the pool.
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "datapool/client.h"
#include "view/journal.h"
#include "view/run_source.h"

namespace ingot::view {

// {"head", "window", "budget", "live_version", "unreleased": [...],
//  "groups": [{"group", "task", "state", "age_s", "in_window", "version", "straggler", "cause", "samples": [...]}]}
// For the first kMostNamed stragglers, the cause says where the oldest running sample spends its time (waits.h,
// HeldUpBy). `engines_rest`: no engine has a call now.
// A straggler is an open group whose age is more than twice the median of the last groups that finished. `now_ns`: of the
// clock, nanoseconds since the Unix epoch. At most kMostGroups groups are listed. Errors are the pool's.
absl::StatusOr<base::json::object> WindowJson(const RunFacts& facts, const Journal& journal, datapool::Client& pool,
                                              int64_t now_ns, bool engines_rest);

inline constexpr size_t kMostGroups = 2000;
inline constexpr size_t kMostNamed = 8;  // each reads a tree

}  // namespace ingot::view
