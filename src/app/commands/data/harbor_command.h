// `ingot tasks check FOLDER` tries Harbor tasks in sandboxes of this machine.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace ingot::app {

struct TasksCheckArgs {
  std::string folder;
  std::string store;
  std::vector<std::string> build_hosts;  // that the steps of Dockerfiles may reach (sandbox/egress/egress_list.h)
  bool only_read = false;                // true: tasks are read, and none is run
  // True: sandboxes have this machine's programs instead of the task's image, and the work folder at /app.
  bool without_images = false;
};

// One line per task: "ok NAME", "refused NAME: reason" or "wrong NAME: reason", and "note NAME: field: ..." for each
// field that is not honored. A task is tried twice, in the same sandboxes as in runs. The solution must get a reward of
// 1. The tests must give 0 to an agent that does nothing; a note says where they leave no reward, which runs count as
// 0. Returns 0 if every task that runs here is right, 1 otherwise, 2 if the folder cannot be read.
int CheckTasks(const TasksCheckArgs& args, std::ostream& out, std::ostream& errors);

}  // namespace ingot::app
