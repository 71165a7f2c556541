// Writes the question about a user's next message, and parses the judge's verdict on it. Pure.
#pragma once

#include <string>

#include "base/status.h"
#include "gateway/user_feedback.h"
#include "reward/judge_model.h"

namespace ingot::app {

// How the user reacted to the answer.
enum class Reaction { kSatisfied, kDissatisfied, kUnclear };

std::string NameOf(Reaction reaction);  // "satisfied"

// Returns the question whether the next message shows that the answer was good. Each string is enclosed in markers with
// an unguessable `nonce` and truncated to 4,096 bytes. `again` = the previous response was unusable.
reward::JudgeQuestion QuestionOf(const gateway::NextMessage& next, const std::string& nonce, bool again);

struct ReactionVerdict {
  Reaction reaction = Reaction::kUnclear;
  std::string reasoning;
};

// Parses a response that is one JSON object and nothing else, except for whitespace around it:
//
//   {"reasoning": string, "verdict": "satisfied" | "dissatisfied" | "unclear"}
//
// Returns INVALID_ARGUMENT with the fault for anything else, including an object with other fields.
absl::StatusOr<ReactionVerdict> ReactionIn(const std::string& answer);

}  // namespace ingot::app
