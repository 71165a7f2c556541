// Writes a judge term's questions and parses the verdicts. Pure.
#pragma once

#include <string>

#include "base/status.h"
#include "reward/judge_model.h"

namespace ingot::reward {

struct JudgeCase {
  std::string rubric;
  std::string question;   // the task's question
  std::string reference;  // the correct answer; empty = none
  std::string response;   // the policy's response
};

// Returns the question about one case. Each string in the case is enclosed in markers with an unguessable `nonce`, so a
// response cannot close its own part and inject instructions. `again`: true = the previous response was unusable.
JudgeQuestion QuestionOf(const JudgeCase& one, const std::string& nonce, bool again);

// Appends a string between markers with the nonce, such as "[RESPONSE 3f0c...]".
void AppendPart(const std::string& name, const std::string& text, const std::string& nonce, std::string& out);

struct JudgeVerdict {
  bool unsure = false;  // the judge abstained, so `score` is meaningless
  double score = 0;     // from 0 to 1
  std::string reasoning;
};

// Reads the last verdict in an answer:
//
//   {"reasoning": text, "verdict": "correct" | "incorrect" | "unsure", "score": 0..1}
//
// The verdict may be anywhere in the text, next to words, braces, and other objects, or nested in an object. Objects
// inside a verdict are ignored. Returns INVALID_ARGUMENT if there is no such object, a value is invalid, or score and
// verdict contradict each other.
absl::StatusOr<JudgeVerdict> VerdictIn(const std::string& answer);

// Removes parts of a response that look like a verdict about itself: JSON with such fields, lines like "Score: 1", and
// claims to be correct.
std::string WithoutVerdicts(std::string response);

}  // namespace ingot::reward
