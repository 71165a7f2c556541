// `ingot tasks rate` and `ingot tasks filter`: measure tasks and select the ones to train on.
#pragma once

#include <string>

namespace ingot::app {

struct TasksRateArgs {
  std::string run_dir;  // from `ingot collect` or a training run
  std::string out;      // output file (JSON Lines): the tasks with their pass rates
  double above = 0.5;   // an outcome above this is a success
  std::string field = "pass_rate";
};
int TasksRate(const TasksRateArgs& args);

struct TasksFilterArgs {
  std::string tasks;    // JSON lines
  std::string out;      // output file for the remaining tasks
  std::string rated;    // run folder with attempts at the tasks; empty = use the tasks' pass_rate field, if present
  std::string guesses;  // run folder with attempts without reasoning; empty = none
  int guess = 8;        // number of those attempts to count
  double above = 0.5;   // an outcome above this is a success
  double min_rate = 0;  // a task at or below this pass rate is impossible
  double max_rate = 1;  // a task at or above this pass rate is trivial
  bool formats = true;  // drops multiple-choice, true-or-false, and proof questions
  std::string question_field = "question", answer_field = "answer", rate_field = "pass_rate";
};
int TasksFilter(const TasksFilterArgs& args);

}  // namespace ingot::app
