// `ingot tasks rate` and `ingot tasks filter`.
#pragma once

#include <string>

namespace ingot::app {

struct TasksRateArgs {
  std::string run_dir;  // of `ingot collect`, or of a training run
  std::string out;      // JSON lines: the tasks with their pass rate
  double above = 0.5;   // an outcome above it is a success
  std::string field = "pass_rate";
};
int TasksRate(const TasksRateArgs& args);

struct TasksFilterArgs {
  std::string tasks;    // JSON lines
  std::string out;      // the remaining tasks
  std::string rated;    // run folder with tries of the tasks; empty = their field pass_rate, if they have it
  std::string guesses;  // run folder with tries without reasoning; empty = none
  int guess = 8;        // tries of it that count
  double above = 0.5;   // an outcome above it is a success
  double min_rate = 0;  // at or below it a task is impossible
  double max_rate = 1;  // at or above it a task is trivial
  bool formats = true;  // drop multiple choice, true or false, proofs
  std::string question_field = "question", answer_field = "answer", rate_field = "pass_rate";
};
int TasksFilter(const TasksFilterArgs& args);

}  // namespace ingot::app
