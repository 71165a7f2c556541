// Objects that outlive processes where a sandbox has no IPC namespace: shared memory, semaphores and message queues.
#pragma once

#include <sys/types.h>

namespace ingot::sandbox::launcher {

// Removes the objects of `uid`, and its files in /dev/shm: a later sandbox may have the uid. REQUIRES: no process has
// it. Blocks until it is done; a process with the uid does it, which cannot remove other users' objects.
void RemoveIpcOf(uid_t uid);

}  // namespace ingot::sandbox::launcher
