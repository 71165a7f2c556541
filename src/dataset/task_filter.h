// Decides which tasks are worth training on, following Kimi k1.5 (arXiv 2501.12599, sections 2.1 and 2.3.5). Pure
// functions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace ingot::dataset {

// The number of attempts at one task, and how many of them succeeded.
struct TaskTries {
  int64_t tries = 0;
  int64_t right = 0;

  double rate() const { return tries == 0 ? 0 : static_cast<double>(right) / static_cast<double>(tries); }
};

struct TaskFilterOptions {
  double min_rate = 0;  // a task with a success rate at or below this is "impossible"; < 0 = no task is
  double max_rate = 1;  // a task with a success rate at or above this is "trivial"; > 1 = no task is
  int64_t guesses = 8;  // > 0; "guessable" = a correct answer in the first `guesses` attempts without reasoning
  bool formats = true;  // drop formats that invite guessing
  std::string question_field = "question";
  std::string answer_field = "answer";
};

// Returns why a question's format invites guessing: "multiple choice" (the question has labeled options), "true or
// false" (the answer is true, false, yes, or no), or "proof" (it asks for a proof). Returns nullopt if the format does
// not.
std::optional<std::string> GuessableFormat(const std::string& question, const std::string& answer);

// Returns why the task is dropped: "trivial", "impossible", "guessable", or a format. Returns nullopt if the task is
// kept. `rated` are its attempts with reasoning, and `guessed` its attempts without. Null = not measured.
std::optional<std::string> ReasonToDrop(const base::json::value& task, const TaskTries* rated, const TaskTries* guessed,
                                        const TaskFilterOptions& options);

// Options for filtering test cases: the outputs of submissions that are believed to be correct decide which cases are
// valid.
struct CaseFilterOptions {
  int64_t min_agreeing = 7;  // a case is kept only if this many submissions agree
  int64_t min_cases = 40;    // a problem is kept only if it has at least this many kept cases
  int64_t min_passing = 9;   // and if this many submissions pass every kept case
};

struct FilteredCases {
  struct Case {
    size_t index = 0;    // index of the case in `outputs`
    std::string output;  // the majority's output
  };
  std::vector<Case> kept;
  int64_t passing = 0;  // submissions that pass every kept case
  std::string dropped;  // why the problem is dropped; empty = it is kept
};

// `outputs`: [submission][case]; nullopt = the submission failed on the case.
FilteredCases FilterCases(const std::vector<std::vector<std::optional<std::string>>>& outputs,
                          const CaseFilterOptions& options);

}  // namespace ingot::dataset
