// Signals for processes below this one, found in /proc. For sandboxes without a PID namespace: whatever sessions and
// groups such processes made, an orphan becomes a child of the nearest subreaper above it.
#pragma once

#include <sys/types.h>

namespace ingot::sandbox::launcher {

// Sends `signal` once to each descendant of this process, but for children that `spares` names and their descendants.
// Returns the number of descendants that were there. One whose parent ended meanwhile gets no signal: a later call
// finds it.
int SignalDescendants(int signal, bool (*spares)(pid_t child));

}  // namespace ingot::sandbox::launcher
