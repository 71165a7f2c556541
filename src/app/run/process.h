// Sets up the process for long-running commands: signals, secrets, the supervisor, and exit codes.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <string>

#include "app/run/run_config.h"
#include "base/status.h"

namespace ingot::app {

// Returns the flag that SIGINT and SIGTERM set once HandleSignals has been called. A second signal ends the process
// immediately. A supervised process reacts only to SIGTERM, and always shuts down cleanly, no matter how many signals
// it receives. The supervisor handles Ctrl-C on the terminal. It stops the roles one after another, with deadlines.
std::atomic<bool>& StopFlag();
void HandleSignals(bool supervised = false);

// Hides this process's memory, environment, and descriptors from other processes of the same user, including agents.
// Makes the process non-dumpable (prctl(2)). Commands that hold keys call this before they read one.
//
// - Debuggers, strace, and py-spy cannot attach, and there are no core dumps. If the environment variable
//   INGOT_DEBUGGABLE is set, this function does nothing.
// - The files in /proc/PID belong to root. The process can still read its own, but cannot write those of a child that
//   shares its memory, such as uid_map between vfork and exec. A program that it executes is not hidden.
// - Root processes with CAP_SYS_PTRACE are not affected.
void HideMemory();
inline constexpr char kDebuggableVariable[] = "INGOT_DEBUGGABLE";

// Kills this process immediately when its parent `parent` exits, or now if it has already exited. This ensures that no
// role outlives its supervisor.
void DieWithParent(pid_t parent);

// Returns this program's path. Returns UNAVAILABLE if the system does not report it.
absl::StatusOr<std::string> OwnBinary();

// Prints "ingot: MESSAGE" to stderr and returns the exit code. 2 = the user can fix the command line or the
// configuration (INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, UNIMPLEMENTED), 130 = CANCELLED, 1 = any other error.
int Fail(const absl::Status& status);

// Returns a line with the address that agents connect to, for runs that do not start agents.
std::string DescribeEntrance(const std::string& gateway_url);

// Returns "compute threads: 4 in all, rollout 2, trainer 2 (...)", which is printed when a run starts.
std::string DescribeCores(const CoreBudget& cores);

}  // namespace ingot::app
