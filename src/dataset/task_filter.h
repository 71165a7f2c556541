// Which tasks are worth training on, after Kimi k1.5 (arXiv 2501.12599, sections 2.1 and 2.3.5). Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace ingot::dataset {

// The tries of one task: how many of its samples succeeded.
struct TaskTries {
  int64_t tries = 0;
  int64_t right = 0;

  double rate() const { return tries == 0 ? 0 : static_cast<double>(right) / static_cast<double>(tries); }
};

struct TaskFilterOptions {
  double min_rate = 0;  // a task with a success rate at or below it is "impossible"; below 0 = none is
  double max_rate = 1;  // a task with a rate at or above it is "trivial"; above 1 = none is
  int64_t guesses = 8;  // > 0; "guessable" = a right answer in the first `guesses` tries without reasoning
  bool formats = true;  // drop formats that invite guessing
  std::string question_field = "question";
  std::string answer_field = "answer";
};

// Why a question's form invites guessing: "multiple choice" (the question has labeled options), "true or false" (such
// an answer, or yes and no), "proof" (it asks for a proof). nullopt = it does not.
std::optional<std::string> GuessableFormat(const std::string& question, const std::string& answer);

// Why the task is dropped: "trivial", "impossible", "guessable", or a format; nullopt = it is kept.
// `rated`: its tries at reasoning; null = not measured. `guessed`: its tries without reasoning; null = not measured.
std::optional<std::string> ReasonToDrop(const base::json::value& task, const TaskTries* rated, const TaskTries* guessed,
                                        const TaskFilterOptions& options);

// The filter of test cases: outputs of submissions that are believed right decide which cases are sound.
struct CaseFilterOptions {
  int64_t min_agreeing = 7;  // of the submissions, for a case to be kept
  int64_t min_cases = 40;    // kept cases, for a problem to be kept
  int64_t min_passing = 9;   // submissions that pass every kept case, for a problem to be kept
};

struct FilteredCases {
  struct Case {
    size_t index = 0;    // of the case
    std::string output;  // of the majority
  };
  std::vector<Case> kept;
  int64_t passing = 0;  // submissions that pass every kept case
  std::string dropped;  // why the problem is dropped; empty = it is kept
};

// `outputs`: [submission][case]; nullopt = the submission failed on the case.
FilteredCases FilterCases(const std::vector<std::vector<std::optional<std::string>>>& outputs,
                          const CaseFilterOptions& options);

}  // namespace ingot::dataset
