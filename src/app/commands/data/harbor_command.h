// `ingot tasks check FOLDER`: tests Harbor tasks in sandboxes on this machine.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace ingot::app {

struct TasksCheckArgs {
  std::string folder;
  std::string store;
  std::vector<std::string> build_hosts;  // hosts that Dockerfile steps may reach (sandbox/egress/egress_list.h)
  bool only_read = false;                // true = only reads the tasks and runs none
  // true = sandboxes use this machine's programs instead of the task's image, and the working directory is /app
  bool without_images = false;
};

// Prints one line per task: "ok NAME", "refused NAME: reason", or "wrong NAME: reason". Also prints "note NAME: field:
// ..." for each field that has no effect. Each task is run twice in the same kind of sandbox as in a real run. The
// solution must get a reward of 1, and an agent that does nothing must get 0. If the tests write no reward, which
// counts as 0 in runs, a note reports it. Returns 0 if every task that can run here is correct, 1 if not, and 2 if the
// folder cannot be read.
int CheckTasks(const TasksCheckArgs& args, std::ostream& out, std::ostream& errors);

}  // namespace ingot::app
