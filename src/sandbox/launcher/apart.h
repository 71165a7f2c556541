// Commands and companions of one sandbox that cannot reach each other, although they have one uid and share files and
// network:
//
//   sandbox's PID namespace         first process of the sandbox, companions
//     └ a PID namespace below    first process, the command and what it starts, with its own /proc
//
// A command that runs next to companions does not see their processes, so that it can neither read their memory and
// environment nor signal them; each companion has shared memory and /dev/shm to itself. The sandbox's first process
// sees all of them.
#pragma once

#include <sys/types.h>

#include "sandbox/launcher/command.h"

namespace ingot::sandbox::launcher {

// How a command ended, as its own parent saw it.
struct CommandEnd {
  int wait_status = 0;
  int64_t cpu_ns = 0;
  int64_t max_rss_kib = 0;
};

// As StartCommand, in a PID namespace below the caller's. Returns the pid of the namespace's first process, whose end
// ends every process there. `ends`: a descriptor that has a CommandEnd once the command has ended, and nothing if that
// process was killed before.
pid_t StartApart(const Ground& ground, const SandboxPlan& sandbox, const Start& start,
                 const int (&fds)[kStartDescriptors], LaunchFailure& failure, int& ends);

// In the process of a companion, before it gives up its rights: System V objects and a /dev/shm that no other process
// has. Returns 0 or errno.
int SeparateShared(uint32_t shm_bytes);

}  // namespace ingot::sandbox::launcher
