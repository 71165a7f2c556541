// Starts one of Ingot's own processes: a role, or the launcher, which starts all other processes
// (sandbox/sandbox_launcher.h). The code between vfork and exec is in spawn.cc and is async-signal-safe.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

#include "base/fd.h"
#include "base/status.h"
#include "sandbox/process.h"

namespace ingot::sandbox {

using base::Fd;

// Converts `errno_value` to a status: NOT_FOUND, PERMISSION_DENIED, INVALID_ARGUMENT, RESOURCE_EXHAUSTED, or otherwise
// UNAVAILABLE.
absl::Status ErrnoStatus(int errno_value, const std::string& what);

// Finds the file that Spawn would execute now, without starting a process. The path may be relative to the current
// directory. For a script, also looks for the interpreter after "#!" and, for env(1), the program that env looks up.
// Returns NOT_FOUND or PERMISSION_DENIED, naming the missing file.
absl::StatusOr<std::string> FindProgram(const Command& command);

// The caller's descriptors to use as the process's stdin, stdout, and stderr.
struct SpawnIo {
  int in = -1;   // becomes 0
  int out = -1;  // becomes 1
  int err = -1;  // becomes 2
};

struct SpawnOptions {
  bool own_session = true;  // false = the process stays in the caller's session and process group
  bool dumps_core = false;  // false = RLIMIT_CORE is 0
  int program_fd = -1;      // open file with the program; -1 = use argv[0]
  // True = the kernel kills the process when the thread that called Spawn exits, including when this process ends. Use
  // it if that thread waits for the process. The process's own children are not killed.
  bool dies_with_its_thread = false;
};

// Starts the command and returns once it is running. Ignores stdin_text. Returns an error if the command did not start.
// The process inherits none of the caller's other descriptors, and its signal actions are reset to the defaults.
absl::StatusOr<pid_t> Spawn(const Command& command, const SpawnIo& io, const SpawnOptions& options);

// Waits for a child process to end, reaps it, and returns its wait status. Returns DEADLINE_EXCEEDED if it was killed
// because `timeout` passed. `name` is the program's name, for the error and the `Wait` (base/waits.h).
absl::StatusOr<int> AwaitChild(pid_t pid, const std::string& name, std::chrono::milliseconds timeout);

}  // namespace ingot::sandbox
