// Cleans up IPC objects that outlive processes in sandboxes without an IPC namespace: shared memory, semaphores, and
// message queues.
#pragma once

#include <sys/types.h>

namespace ingot::sandbox::launcher {

// Removes the IPC objects and /dev/shm files that belong to `uid`, because a later sandbox may get the same uid. Blocks
// until done. A child process with this uid does the work, so it cannot remove other users' objects. REQUIRES: no
// process has this uid.
void RemoveIpcOf(uid_t uid);

}  // namespace ingot::sandbox::launcher
