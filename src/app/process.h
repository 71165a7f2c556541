// What every long-running command of the binary does at its start: logging, signals, its place in the run.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <string>

#include "app/run_config.h"
#include "base/status.h"

namespace ingot::app {

// Set by SIGINT and SIGTERM once HandleSignals was called; a second signal ends the process at once. A supervised
// process ends by SIGTERM alone, and in order however many come: the terminal's Ctrl-C is for its supervisor, who ends
// the roles one after the other and does not wait for ever.
std::atomic<bool>& StopFlag();
void HandleSignals(bool supervised = false);

// An environment variable that holds a secret, which is wiped: neither what this process starts nor who looks at its
// environment finds it. Empty: there is none. Not thread safe.
std::string TakeSecret(const char* variable);
// What opens episodes at a launched run's gateway, where no file names it: the supervisor hands it to those who need
// it.
inline constexpr char kAdminKeyVariable[] = "INGOT_ADMIN_KEY";

// The process ends when the one that started it does: no role outlives its supervisor.
void DieWithParent(pid_t parent);

// Prints "ingot: MESSAGE" to stderr and returns the exit code for it: 2 for what the user can mend in the command line
// or the configuration (INVALID_ARGUMENT, NOT_FOUND of a file, ALREADY_EXISTS), otherwise 1; 130 when stopped.
int Fail(const absl::Status& status);

// Where agents reach a run that starts none: one line.
std::string DescribeEntrance(const std::string& gateway_url);

// "compute: 2 threads: rollout 1, trainer 1 ..." for the start of a run.
std::string DescribeCores(const CoreBudget& cores);

}  // namespace ingot::app
