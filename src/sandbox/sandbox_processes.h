// The processes of a sandbox, as this process sees them. This only lists pids; running_command.h decides which signals
// end them.
#pragma once

#include <sys/types.h>

#include <vector>

namespace ingot::sandbox {

// Returns `first` (the nearest subreaper above every process of its sandbox) and its descendants. It may miss processes
// that start during the call; a later call finds them. Needs /proc/PID/task/TID/children, which most kernels have.
std::vector<pid_t> ProcessesOf(pid_t first);

// The threads of a process, its own id first.
std::vector<pid_t> ThreadsOf(pid_t pid);

}  // namespace ingot::sandbox
