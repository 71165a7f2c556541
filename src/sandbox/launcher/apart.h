// Runs a command that cannot access its sandbox's companions, although they share its uid, files, and network:
//
//   sandbox's PID namespace         first process of the sandbox, companions
//     └ a nested PID namespace       its first process, the command, and its children, with a separate /proc
//
// A command that runs next to companions cannot see their processes, so it cannot read their memory or environment, or
// send them signals. Each companion has private shared memory and a private /dev/shm. The sandbox's first process sees
// all of them.
#pragma once

#include <sys/types.h>

#include "sandbox/launcher/command.h"

namespace ingot::sandbox::launcher {

// The result of a command as seen by its parent process.
struct CommandEnd {
  int wait_status = 0;
  int64_t cpu_ns = 0;
  int64_t max_rss_kib = 0;
};

// Like StartCommand, but in a nested PID namespace. Returns the pid of the namespace's first process. When it ends, all
// processes in the namespace end. `ends` receives a descriptor that delivers a CommandEnd when the command has ended,
// or nothing if that first process was killed earlier.
pid_t StartApart(const Ground& ground, const SandboxPlan& sandbox, const Start& start,
                 const int (&fds)[kStartDescriptors], LaunchFailure& failure, int& ends);

// Gives a companion's process its own System V objects and /dev/shm. Must be called before the process drops its
// privileges. Returns 0 or errno.
int SeparateShared(uint32_t shm_bytes);

}  // namespace ingot::sandbox::launcher
