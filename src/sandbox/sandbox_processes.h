// The processes of a sandbox, as this process sees them.
#pragma once

#include <sys/types.h>

#include <vector>

namespace ingot::sandbox {

// `first`, which is the nearest subreaper above every process of its sandbox, and its descendants. Some that begin meanwhile are
// missed: a later look finds them. Needs /proc/PID/task/TID/children, which usual kernels have.
std::vector<pid_t> ProcessesOf(pid_t first);

// The threads of a process, its own id first.
std::vector<pid_t> ThreadsOf(pid_t pid);

}  // namespace ingot::sandbox
