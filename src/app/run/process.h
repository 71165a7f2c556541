// The start of a long-running command: signals, secrets, its tie to its supervisor; and the exit code of an error.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <string>

#include "app/run/run_config.h"
#include "base/status.h"

namespace ingot::app {

// Set by SIGINT and SIGTERM, once HandleSignals was called; a second signal ends the process at once. A supervised
// process stops only by SIGTERM, in order, however many signals come: Ctrl-C in the terminal is for its supervisor,
// which stops the roles one after the other and has deadlines for them.
std::atomic<bool>& StopFlag();
void HandleSignals(bool supervised = false);

// Hides this process's memory, environment and descriptors from the other processes of its user, including agents: the
// process is no longer dumpable (prctl(2)). For commands that hold keys, before they read one.
//
//   - Debuggers, strace and py-spy cannot attach, and the process leaves no core dump. With the environment variable
//     INGOT_DEBUGGABLE set the process stays open.
//   - The files of /proc/PID belong to root. This process may still read its own, but cannot write the files of a child
//     that shares its memory, such as uid_map between vfork and exec. A program that it executes is open again.
//   - Processes of root with CAP_SYS_PTRACE see it as before.
void HideMemory();
inline constexpr char kDebuggableVariable[] = "INGOT_DEBUGGABLE";

// Ends this process at once, whatever it does, when its parent `parent` ends or has ended: no role outlives its
// supervisor.
void DieWithParent(pid_t parent);

// The file of this program. UNAVAILABLE: the system does not report it.
absl::StatusOr<std::string> OwnBinary();

// Prints "ingot: MESSAGE" to stderr and returns the exit code: 2 for errors that the user can fix in the command line
// or the configuration (INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, UNIMPLEMENTED), 130 for CANCELLED, otherwise 1.
int Fail(const absl::Status& status);

// One line: the address at which agents reach a run that does not start agents.
std::string DescribeEntrance(const std::string& gateway_url);

// "compute threads: 4 in all, rollout 2, trainer 2 (...)", for the start of a run.
std::string DescribeCores(const CoreBudget& cores);

}  // namespace ingot::app
