// Objects that outlive processes where a sandbox has no IPC namespace: shared memory, semaphores and message queues.
#pragma once

#include <sys/types.h>

namespace ingot::sandbox::launcher {

// Removes those of `uid`, and its files in /dev/shm: a later sandbox may have the uid. REQUIRES: no process has it. Blocks until
// it is done; a process of the uid does it, which can remove nobody else's.
void RemoveIpcOf(uid_t uid);

}  // namespace ingot::sandbox::launcher
