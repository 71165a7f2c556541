// The inputs and outputs of the user's scorers: a server (external_score.h) or a Python function (python_score.h).
//
// An episode is
//
//   {"episode_id", "task_id", "task": its payload, "domain", "scaffold", "outcome", "signals": {}, "facts": {},
//    "seconds", "calls": [{"call_id", "turn", "role", "policy", "sampled_tokens", "finish", "message": as delivered}]}
//
// and its score is {"score": number, "detail"?: text, "calls"?: {CALL_ID: number}}. A group is
//
//   {"group_id", "episodes": [as above, ..]}
//
// and its scores are {"scores": [one entry per episode, in the same order]}. An entry is a number or has the form of a
// single episode's score.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "reward/facts.h"
#include "reward/term.h"

namespace ingot::reward {

std::string EpisodeJson(const EpisodeFacts& episode);
// Returns the group's finished episodes, by sample index.
std::string GroupJson(const GroupFacts& group);

// Reads the score in `answer`. Returns INVALID_ARGUMENT with the scorer, the problem, and the answer.
absl::StatusOr<TermResult> ScoreIn(const std::string& answer, const std::string& scorer, const EpisodeFacts& episode);

// Returns one result per episode. A null or invalid entry is an error only for its episode. If `answer` is an error or
// has the wrong number of entries, every episode gets an error.
std::vector<absl::StatusOr<TermResult>> ScoresIn(const absl::StatusOr<std::string>& answer, const std::string& scorer,
                                                 const GroupFacts& group);

}  // namespace ingot::reward
