// Spawn starts one of Ingot's own processes: a role, or the launcher, which starts all others
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

// `errno_value` as a status, by its cause: NOT_FOUND, PERMISSION_DENIED, INVALID_ARGUMENT, RESOURCE_EXHAUSTED,
// otherwise UNAVAILABLE.
absl::Status ErrnoStatus(int errno_value, const std::string& what);

// The file that Spawn would execute, as an absolute or PATH-relative path, looked for now and without a process.
// Follows "#!" to its interpreter and, after env(1), to the program that env looks up. NOT_FOUND or PERMISSION_DENIED
// names the missing one.
absl::StatusOr<std::string> FindProgram(const Command& command);

// The caller's descriptors that become the process's stdin, stdout and stderr.
struct SpawnIo {
  int in = -1;   // becomes 0
  int out = -1;  // becomes 1
  int err = -1;  // becomes 2
};

struct SpawnOptions {
  bool own_session = true;  // false: the process stays in the caller's session and process group
  bool dumps_core = false;  // false: RLIMIT_CORE is 0
  int program_fd = -1;      // the program, an open file; -1 = argv[0] names it
  // True: the kernel kills the process when the thread that called Spawn ends, and so when this process does. For a
  // caller that waits for it. The process's own children stay.
  bool dies_with_its_thread = false;
};

// Starts the command and returns once it runs; it gets no stdin_text. The error is about a command that did not start.
// No other descriptor of the caller reaches the process; its signals have their default actions.
absl::StatusOr<pid_t> Spawn(const Command& command, const SpawnIo& io, const SpawnOptions& options);

// Waits for the end of a child process, and reaps it. Returns its wait status. DEADLINE_EXCEEDED: it ran for `timeout`,
// and was killed. `name`: the program, for the error and the waits of this process.
absl::StatusOr<int> AwaitChild(pid_t pid, const std::string& name, std::chrono::milliseconds timeout);

}  // namespace ingot::sandbox
