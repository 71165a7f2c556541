// Starts one command in a sandbox. Between vfork and exec, the child switches to its uid, drops privileges, and applies
// the Landlock and seccomp rules.
#pragma once

#include <sys/types.h>

#include "sandbox/launch_messages.h"
#include "sandbox/launcher/root.h"
#include "sandbox/launcher/sandbox_init.h"

namespace ingot::sandbox::launcher {

// A Start message as read from its file (launch_messages.h). The file stays mapped until the process exits.
struct Start {
  const StartHeader* header = nullptr;
  const char* working_dir = nullptr;
  const char* path = nullptr;
  char** arguments = nullptr;
  char** variables = nullptr;
};

// Returns false if the file is malformed.
bool ReadStart(int fd, Start& start);

// Returns the command's pid, or -1 with errno set. If `failure` is set, nothing was executed, and the child has exited.
pid_t StartCommand(const Ground& ground, const SandboxPlan& sandbox, const Start& start,
                   const int (&fds)[kStartDescriptors], LaunchFailure& failure);

}  // namespace ingot::sandbox::launcher
