// The supervisor runs the roles of a run as processes of this machine. It starts them in order, and restarts a role
// that ends unexpectedly. When the deciding role ends, it stops all others; roles that others need stop last
// (RoleSpec::wave). Each role's output goes to its own log file.
//
// Roles may form a GROUP of processes that can only run together (the ranks of a trainer). A member may crash, or exit
// with kGroupLostExit because it saw another member gone. Then the rest are ended, and all are restarted. A member that
// exits with any other code than 0 has its own error, which would recur: the run ends with it.
//
// The end of a group counts as a crash for the members that died, by a signal that the supervisor did not send. If none
// died, it counts for the members that had to be killed; if there are none either, for all. A member with more than
// max_restarts crashes is lost, and the group continues without it,
//
//   members      a  b  c  d        index in the group  0  1  2  3
//   b is lost    a     c  d                            0     1  2      RoleSpec::renumbered makes each new spec
//
// down to min_members; with fewer the run fails.
//
// A role that ended with an error during an obstacle, such as a full disk, restarts once the obstacle is gone. That
// does not count as a crash, and does not end the run if the role decides.
//
// A start may fail, for instance because no process or file descriptor is free. After the first start of the run, it is
// retried after a wait that doubles, max_restarts times in a row. That is not a crash of the role.
//
// Not thread safe: one thread starts and runs it. Children die with that thread, also while they are loaded.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/waits.h"

namespace ingot::app {

// Exit code of a group's member that lost another member.
inline constexpr int kGroupLostExit = 75;
// Exit code of a role that ended in order by SIGTERM. If the supervisor did not send the signal, it counts as a crash.
inline constexpr int kStoppedExit = 143;
// Exit code of a role that its configuration or this machine does not allow (app/run/process.h). At its first start it is
// not restarted: it would end the same way.
inline constexpr int kRejectedExit = 2;

struct RoleSpec {
  std::string name;
  std::vector<std::string> argv;
  std::vector<std::string> restart_extra;  // arguments of later starts (trainer: --resume)
  // Given to each start on its stdin, a socket that is then at its end: secrets, for which arguments and environment
  // are too open. At most 64 KiB; empty = stdin is /dev/null.
  std::string input;
  std::string log_path;
  std::string group;  // roles of one group restart together; empty = no group
  // The same member (name, log) as number `index` of a group of `size`. Null = the group needs all its members.
  std::function<RoleSpec(int index, int size)> renumbered;
  bool decides = false;     // its exit ends the run, with its exit code
  bool may_finish = false;  // exit code 0 = its work is complete; it is not restarted
  int wave = 0;  // at the run's end it is stopped once all roles of lower waves, which may need it, have ended
  std::chrono::milliseconds stop_grace{15000};  // between SIGTERM and SIGKILL at the run's end
  bool inherits_stdout = false;                 // true: prints to the terminal; false: to its log
};

// A role as its supervisor knows it.
struct RoleState {
  std::string name;
  pid_t pid = -1;  // -1 = not running
  int restarts = 0;
  bool done = false;

  bool operator==(const RoleState&) const = default;
};

struct SupervisorOptions {
  int max_restarts = 3;  // of a role; one crash more ends the run or, in a group, loses the member
  // running time after which a role's earlier crashes no longer count
  std::chrono::milliseconds forget_after = std::chrono::hours(1);
  int min_members = 1;  // least number of members with which a group continues
  std::chrono::milliseconds restart_delay{500};
  // Between the first end in a group and SIGKILL for the rest: time in which a member may end with its own error.
  std::chrono::milliseconds group_grace{3000};
  const base::Clock* clock = &base::Clock::Real();
  // Called by the thread of Run with all roles, whenever one changed. May be null.
  std::function<void(const std::vector<RoleState>&)> on_states;
  // Polled by the thread of Run for more roles to start. Null = there are none.
  std::function<std::vector<RoleSpec>()> arrivals;
  // Asked when a role has ended with an error, and then until it may restart: why a role could not succeed now. Empty
  // text = no obstacle. Null = there never is one.
  std::function<std::string()> obstacle;
};

class Supervisor {
 public:
  explicit Supervisor(SupervisorOptions options) : options_(std::move(options)) {}
  ~Supervisor();

  // Starts a first role; an error is not tried again.
  absl::Status Start(RoleSpec spec);

  // Runs until the deciding role ended and all others are stopped; returns the deciding role's exit code. Once `stop`
  // is true the run ends in order. `on_status` gets one line per change of a role's state and, after all
  // are stopped, one with the reason for the run's end.
  absl::StatusOr<int> Run(const std::function<bool()>& stop, const std::function<void(const std::string&)>& on_status);

 private:
  using OnStatus = std::function<void(const std::string&)>;
  struct Role {
    RoleSpec spec;
    pid_t pid = -1;
    int restarts = 0;       // of a group's member: crashes that count for it
    int failed_starts = 0;  // since it ran last
    bool has_run = false;
    bool done = false;
    bool killed = false;                                  // by the supervisor, since it outlived its group
    bool died = false;                                    // by itself, and thereby ended its group
    std::unique_ptr<base::Wait> held;                     // while an obstacle blocks its next start
    std::chrono::nanoseconds started{0}, start_after{0};  // on the clock
  };
  // A group with a member that has ended; the others are to end.
  struct EndingGroup {
    std::string first;  // description of the first end
    std::string error;  // a member's own error; empty = none
    std::chrono::nanoseconds kill_after{0};
  };

  // The end of the run and its reason.
  struct Ending {
    absl::StatusOr<int> code;
    std::string why;
  };

  static absl::StatusOr<pid_t> Spawn(const RoleSpec& spec, bool again);
  // "NAME exited with 3: ERROR; see LOG", with the error that the role printed last, if it printed one
  static std::string Describe(const Role& role, int wait_status);
  absl::Status Begin(Role& role) const;
  // As Begin, but a role that cannot start is retried later, without a process until then. ABORTED: it failed too
  // often.
  absl::Status BeginOrDefer(Role& role, const OnStatus& on_status) const;
  // Manages all roles until the run ends. Roles that still run then are not stopped.
  Ending TendAll(const std::function<bool()>& stop, const OnStatus& on_status);
  // Starts `role` if it is due, or reaps it if it ended. Returns the run's ending if this decides it.
  absl::StatusOr<std::optional<Ending>> Tend(Role& role, const OnStatus& on_status);
  void NoteGroupEnd(Role& role, int wait_status, const OnStatus& on_status);
  // After an error of the role: whether it waits for the end of an obstacle, and, before its next start, still does.
  void HoldIfObstructed(Role& role) const;
  bool IsHeld(Role& role, const OnStatus& on_status) const;
  static std::string StartOf(const Role& role, const std::string& obstacle);
  absl::Status TendGroups(const OnStatus& on_status);
  // ABORTED: it was restarted too often.
  absl::Status Restart(Role& role, const std::string& why);
  absl::Status RestartGroup(const std::string& name, const std::string& why, const OnStatus& on_status);
  // Removes the `lost` members and numbers the others anew; ABORTED if too few are left.
  absl::Status GoOnWithout(const std::vector<std::string>& lost, const std::string& name, const std::string& why,
                           const OnStatus& on_status);
  void Schedule(Role& role) const;
  absl::Status StartArrivals(const OnStatus& on_status);
  void ReportStates();
  void StopAll(const OnStatus& on_status);
  void StopWave(int wave, const OnStatus& on_status);

  const SupervisorOptions options_;
  std::vector<Role> roles_;
  std::map<std::string, EndingGroup> ending_;
  std::vector<RoleState> reported_;
};

}  // namespace ingot::app
