// The first process of a room for one command. It raises the wall, starts the command, adopts and reaps its orphans, and
// ends all of them. It does so when the command has ended, when it is told to, and when nobody holds its control socket
// any more. It outlives the launcher. In a PID namespace it is process 1. It has the launcher's uid, holds the keys of its own episode alone, and cannot be
// traced.
#pragma once

#include <sys/types.h>

#include "sandbox/launch_messages.h"

namespace ingot::sandbox::launcher {

// The facts of a launcher that all of its rooms share.
struct Ground {
  uint32_t walls = 0;
  uid_t uid = 0;  // of Ingot
  gid_t gid = 0;
};

// The flags of clone(2) for a room's first process.
int CloneFlags(const Ground& ground);

// Runs the Start of `fds` (see kStartDescriptors) to its end.
[[noreturn]] void RunRoom(const Ground& ground, const int (&fds)[kStartDescriptors]);

// Sends the report of a start that failed.
void ReportFailure(int control, LaunchStep step, int error, int index);

}  // namespace ingot::sandbox::launcher
