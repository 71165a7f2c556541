// What opens, rewards and ends an episode: read from JSON bodies, and checked. Pure functions; errors name the field,
// and a field that is not known is one.
#pragma once

#include "base/json.h"
#include "base/json_text.h"
#include "base/status.h"
#include "proto/gateway.pb.h"

namespace ingot::gateway {

// {"scaffold"?, "task": {"task_id"?, "domain"?, "payload"?}?, "domain"?, "group"?, "limits": {"max_calls"?,
// "max_tokens"?, "deadline_s"?}?, "metadata": {..}?, "separate_owner": bool?}. `body` is what `text` says; the task's
// payload keeps its numbers as they are written there.
absl::Status ReadOpen(const base::json::value& body, const base::JsonText& text, v1::EpisodeOpenRequest& open);
// {"reward"?, "signals": {NAME: number}?, "call_id" | "turn"?, "calls": [{"call_id" | "turn", "reward"}]?}: with a call
// named, "reward" is its own.
absl::Status ReadReward(const base::json::value& body, v1::EpisodeRewardRequest& request);
// {"status": "finished" | "failed", "detail"?}
absl::Status ReadEnd(const base::json::value& body, v1::EpisodeEndRequest& end);

// 400 for what no episode can be opened with. `admission`: somebody decides about groups.
absl::Status CheckOpen(const v1::EpisodeOpenRequest& request, bool admission);

}  // namespace ingot::gateway
