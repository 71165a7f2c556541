// Sends signals to all of this process's descendants, using /proc, for sandboxes without a PID namespace. Works for any
// sessions and groups that the processes create, because orphans are reparented to the nearest subreaper.
#pragma once

#include <sys/types.h>

namespace ingot::sandbox::launcher {

// Sends `signal` once to each descendant of this process, except children for which `spares` returns true, and their
// descendants. Returns the number of descendants found. A process whose parent exits during the call may be missed;
// call again to find it.
int SignalDescendants(int signal, bool (*spares)(pid_t child));

}  // namespace ingot::sandbox::launcher
