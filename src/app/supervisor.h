// Runs the roles of a run as processes of this machine: starts them in order, restarts what crashes, ends all of them
// when the one that decides the run ends. Each role's output goes to its own log file.
//
// Not thread safe: one thread starts and runs it. Children die with the supervisor, also when it is killed.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"

namespace ingot::app {

struct RoleSpec {
  std::string name;
  std::vector<std::string> argv;
  std::vector<std::string> restart_extra;  // arguments added when it is started again (trainer: --resume)
  std::string log_path;
  bool decides = false;          // its exit ends the run, with its exit code
  bool inherits_stdout = false;  // prints to the terminal; otherwise to its log
};

struct SupervisorOptions {
  int max_restarts = 3;  // per role, then the run fails; 0: any crash fails the run
  std::chrono::milliseconds restart_delay{500};
  std::chrono::milliseconds stop_grace{15000};  // between SIGTERM and SIGKILL
};

class Supervisor {
 public:
  explicit Supervisor(SupervisorOptions options) : options_(options) {}
  ~Supervisor();

  absl::Status Start(RoleSpec spec);

  // Returns the deciding role's exit code once it ended and all others are stopped. `on_status` is called with one line
  // whenever a role's state changes. `stop` set from a signal handler ends the run in order.
  absl::StatusOr<int> Run(const std::atomic<bool>& stop, const std::function<void(const std::string&)>& on_status);

 private:
  struct Role {
    RoleSpec spec;
    pid_t pid = -1;
    int restarts = 0;
    bool done = false;
    std::chrono::steady_clock::time_point start_after{};
  };

  static absl::StatusOr<pid_t> Spawn(const RoleSpec& spec, bool again);
  void StopAll();

  const SupervisorOptions options_;
  std::vector<Role> roles_;
};

}  // namespace ingot::app
