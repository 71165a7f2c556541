// The start of one command in a sandbox: from vfork to exec the child takes its uid, gives up its rights, and takes on
// the rules of Landlock and seccomp.
#pragma once

#include <sys/types.h>

#include "sandbox/launch_messages.h"
#include "sandbox/launcher/root.h"
#include "sandbox/launcher/sandbox_init.h"

namespace ingot::sandbox::launcher {

// A Start, as its file has it (launch_messages.h). The mapping lasts as long as the process.
struct Start {
  const StartHeader* header = nullptr;
  const char* working_dir = nullptr;
  const char* path = nullptr;
  char** arguments = nullptr;
  char** variables = nullptr;
};

// False: the file is malformed.
bool ReadStart(int fd, Start& start);

// Returns the command's pid, or -1 (errno). With `failure` set nothing was executed, and the child has ended.
pid_t StartCommand(const Ground& ground, const SandboxPlan& sandbox, const Start& start,
                   const int (&fds)[kStartDescriptors], LaunchFailure& failure);

}  // namespace ingot::sandbox::launcher
