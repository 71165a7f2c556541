// `ingot tasks cases`: keeps the test cases on which submissions agree.
#pragma once

#include <string>

namespace ingot::app {

struct TasksCasesArgs {
  std::string problems;  // JSON Lines with cases and submissions
  std::string out;       // output file for the remaining problems, with tests
  std::string work_root;
  int agreeing = 7, cases = 40, passing = 9;
  double timeout_s = 10;       // timeout for one submission on one case
  int threads = 2;             // submissions to run in parallel
  bool allow_process = false;  // allows the isolation level `process`
};
int TasksCases(const TasksCasesArgs& args);

}  // namespace ingot::app
