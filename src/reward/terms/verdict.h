// The texts of a judge term: its questions, and the verdicts in its answers. Pure.
#pragma once

#include <string>

#include "base/status.h"
#include "reward/judge_model.h"

namespace ingot::reward {

struct JudgeCase {
  std::string rubric;
  std::string question;   // of the task
  std::string reference;  // the right answer; empty = there is none
  std::string response;   // of the policy
};

// The question about one case. Each text of the case is between markers with an unguessable `nonce`, so that a response
// cannot close its own part and give orders. `again`: the previous answer was unusable.
JudgeQuestion QuestionOf(const JudgeCase& one, const std::string& nonce, bool again);

struct JudgeVerdict {
  bool unsure = false;  // the judge abstains, and `score` means nothing
  double score = 0;     // from 0 to 1
  std::string reasoning;
};

// Reads the last verdict of an answer: {"reasoning": text, "verdict": "correct" | "incorrect" | "unsure", "score": 0..1}.
// It may stand anywhere: between other words, braces and objects, or inside another object. Objects inside a verdict are
// not read. INVALID_ARGUMENT: no such object, a wrong value, or score and verdict contradict each other.
absl::StatusOr<JudgeVerdict> VerdictIn(const std::string& answer);

// A response without the parts that look like a verdict about itself: JSON with such fields, lines like "Score: 1", and
// claims to be correct.
std::string WithoutVerdicts(std::string response);

}  // namespace ingot::reward
