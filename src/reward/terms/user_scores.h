// What the user's own scorers get and return: a server (external_score.h) or a Python function (python_score.h).
//
// An episode is
//
//   {"episode_id", "task_id", "task": its payload, "domain", "scaffold", "outcome", "signals": {}, "facts": {},
//    "seconds", "calls": [{"call_id", "turn", "policy", "sampled_tokens", "finish", "message": as it was delivered}]}
//
// and its score {"score": number, "detail"?: text, "calls"?: {CALL_ID: number}}. A group is
//
//   {"group_id", "episodes": [as above, ..]}
//
// and its scores {"scores": [an entry for each, in their order]}, where an entry is a number or has the form of a single
// episode's score.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "reward/facts.h"
#include "reward/term.h"

namespace ingot::reward {

std::string EpisodeJson(const EpisodeFacts& episode);
// Its finished episodes, by sample index.
std::string GroupJson(const GroupFacts& group);

// The score in `answer`. INVALID_ARGUMENT names the scorer, what is wrong, and the answer.
absl::StatusOr<TermResult> ScoreIn(const std::string& answer, const std::string& scorer, const EpisodeFacts& episode);

// One result per episode. Null or any other unusable entry is an error of only its episode. An error instead of an
// answer, and a wrong number of entries, are errors of all.
std::vector<absl::StatusOr<TermResult>> ScoresIn(const absl::StatusOr<std::string>& answer, const std::string& scorer,
                                                 const GroupFacts& group);

}  // namespace ingot::reward
