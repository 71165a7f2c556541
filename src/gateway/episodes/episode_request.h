// Parses and checks the JSON bodies that open, reward, and end an episode. Errors name the field. An unknown field is
// an error. Pure functions.
#pragma once

#include "base/json.h"
#include "base/json_text.h"
#include "base/status.h"
#include "proto/gateway.pb.h"

namespace ingot::gateway {

// {"scaffold"?, "task": {"task_id"?, "domain"?, "payload"?}?, "domain"?, "group"?, "limits": {"max_calls"?,
// "max_tokens"?, "deadline_s"?}?, "metadata": {..}?, "separate_owner": bool?, "from_snapshot"?}.
// `body` is the parsed `text`. The task payload is copied from `text` to preserve the original number formatting.
absl::Status ReadOpen(const base::json::value& body, const base::JsonText& text, v1::EpisodeOpenRequest& open);
// {"reward"?, "signals": {NAME: number}?, "facts": {NAME: any JSON}?, "call_id" | "turn"?,
// "calls": [{"call_id" | "turn", "reward"}]?}. With "call_id" or "turn", "reward" belongs to that call.
absl::Status ReadReward(const base::json::value& body, v1::EpisodeRewardRequest& request);
// {"status": "finished" | "failed", "detail"?}
absl::Status ReadEnd(const base::json::value& body, v1::EpisodeEndRequest& end);

// Fails with 400 if no episode can be opened with this request. `admission` is true if an Admission controls groups.
absl::Status CheckOpen(const v1::EpisodeOpenRequest& request, bool admission);

}  // namespace ingot::gateway
