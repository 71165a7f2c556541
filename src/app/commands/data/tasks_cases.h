// `ingot tasks cases`.
#pragma once

#include <string>

namespace ingot::app {

struct TasksCasesArgs {
  std::string problems;  // JSON lines with cases and submissions
  std::string out;       // the remaining problems, with tests
  std::string work_root;
  int agreeing = 7, cases = 40, passing = 9;
  double timeout_s = 10;       // of one submission on one case
  int threads = 2;             // at a time
  bool allow_process = false;  // allow the isolation level `process`
};
int TasksCases(const TasksCasesArgs& args);

}  // namespace ingot::app
