// Lists a sandbox's process ids, as seen from this process. running_command.h decides which signals end them.
#pragma once

#include <sys/types.h>

#include <vector>

namespace ingot::sandbox {

// Returns `first` and its descendants. `first` is the nearest subreaper above every process of its sandbox. Processes
// that start during the call may be missed; a later call finds them. Requires /proc/PID/task/TID/children, which most
// kernels provide.
std::vector<pid_t> ProcessesOf(pid_t first);

// Returns the thread ids of a process, starting with the process's own id.
std::vector<pid_t> ThreadsOf(pid_t pid);

}  // namespace ingot::sandbox
