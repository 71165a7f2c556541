// Runs the roles of a run as processes of this machine: starts them in order, restarts what ends without having been
// told to by the supervisor, ends all of them when the one that decides the run ends. Those that others need end last
// (RoleSpec::wave). Each role's output goes to its own log file.
//
// Roles may be a GROUP, processes that can only go on together (the ranks of a trainer). When one of them crashes, or
// ends with kGroupLostExit because it saw another one gone, the rest are ended and all are started again. One that ends
// with another code than 0 has an error of its own, which would come again: it ends the run, whatever the others say.
// A group's end counts for the members that died (a signal of their own), else for those that had to be killed, else
// for all of them. A member for which it counts once more than max_restarts is lost: the group goes on without it,
//
//   members      a  b  c  d        index in the group  0  1  2  3
//   b is lost    a     c  d                            0     1  2      each is told by RoleSpec::renumbered
//
// down to min_members; with fewer the run fails.
//
// Not thread safe: one thread starts and runs it. Children die with the supervisor, also when it is killed.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace ingot::app {

// Exit code of a role that another one of its group left alone.
inline constexpr int kGroupLostExit = 75;
// Exit code of a role that SIGTERM ended in order. Where the supervisor did not send it, that is a crash as any other.
inline constexpr int kStoppedExit = 143;

struct RoleSpec {
  std::string name;
  std::vector<std::string> argv;
  std::vector<std::string> restart_extra;  // arguments added when it is started again (trainer: --resume)
  std::vector<std::string> environment;    // "NAME=VALUE", beside this process's
  std::string log_path;
  std::string group;  // of roles that are started again together; empty: alone
  // The same member of the group (name, log) as number `index` of `size`. Empty: the group needs all its members.
  std::function<RoleSpec(int index, int size)> renumbered;
  bool decides = false;     // its exit ends the run, with its exit code
  bool may_finish = false;  // exit code 0: it has no more to do, and is not started again
  int wave = 0;             // at the run's end it is told to end once all of lower waves, who may need it, have
  std::chrono::milliseconds stop_grace{15000};  // between SIGTERM and SIGKILL then
  bool inherits_stdout = false;                 // prints to the terminal; otherwise to its log
};

struct SupervisorOptions {
  int max_restarts = 3;  // per role, then the run fails or, of a group, the member is lost; 0: at the first crash
  std::chrono::milliseconds forget_after = std::chrono::hours(1);  // of running, a role's earlier crashes
  int min_members = 1;                                             // that a group goes on with
  std::chrono::milliseconds restart_delay{500};
  // Between the first end in a group and SIGKILL for the rest: time to end with an error of one's own.
  std::chrono::milliseconds group_grace{3000};
};

class Supervisor {
 public:
  explicit Supervisor(SupervisorOptions options) : options_(options) {}
  ~Supervisor();

  absl::Status Start(RoleSpec spec);

  // Returns the deciding role's exit code once it ended and all others are stopped. `on_status` is called with one line
  // whenever a role's state changes, and last, when all are stopped, with why the run ended. `stop` set from a signal
  // handler ends the run in order.
  absl::StatusOr<int> Run(const std::atomic<bool>& stop, const std::function<void(const std::string&)>& on_status);

 private:
  using OnStatus = std::function<void(const std::string&)>;
  struct Role {
    RoleSpec spec;
    pid_t pid = -1;
    int restarts = 0;  // of a group's member: those that count for it
    bool done = false;
    bool killed = false;  // by the supervisor, since it outlived its group
    bool died = false;    // by itself, which ended its group
    std::chrono::steady_clock::time_point started{}, start_after{};
  };
  // A group of which some have ended and the others are to.
  struct EndingGroup {
    std::string first;  // what ended it
    std::string error;  // of one that has an error of its own
    std::chrono::steady_clock::time_point kill_after;
  };

  // How the run ended.
  struct Ending {
    absl::StatusOr<int> code;
    std::string why;
  };

  static absl::StatusOr<pid_t> Spawn(const RoleSpec& spec, bool again);
  // "NAME exited with 3; see LOG"
  static std::string Describe(const Role& role, int wait_status);
  // Until the run ends. The roles that still run then are not stopped.
  Ending TendAll(const std::atomic<bool>& stop, const OnStatus& on_status);
  // Reaps `role` if it ended. How the run ended, if this decides it.
  absl::StatusOr<std::optional<Ending>> Tend(Role& role, const OnStatus& on_status);
  void NoteGroupEnd(Role& role, int wait_status, const OnStatus& on_status);
  absl::Status TendGroups(const OnStatus& on_status);
  // ABORTED once it was started again too often.
  absl::Status Restart(Role& role, const std::string& why);
  absl::Status RestartGroup(const std::string& name, const std::string& why, const OnStatus& on_status);
  // Takes `lost` out and numbers the others anew; ABORTED if too few are left.
  absl::Status GoOnWithout(const std::vector<std::string>& lost, const std::string& name, const std::string& why,
                           const OnStatus& on_status);
  void Schedule(Role& role) const;
  void StopAll();
  void StopWave(int wave);

  const SupervisorOptions options_;
  std::vector<Role> roles_;
  std::map<std::string, EndingGroup> ending_;
};

}  // namespace ingot::app
