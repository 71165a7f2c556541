// Runs a run's roles as processes on this machine. Starts them in order and restarts a role that ends unexpectedly.
// When the deciding role ends, the supervisor stops all others. Roles that others depend on stop last (RoleSpec::wave).
// Each role writes its own log file.
//
// Roles may form a GROUP of processes that can only run together, such as a trainer's ranks. If a member crashes, or
// exits with kGroupLostExit because another member is gone, the supervisor kills the remaining members and restarts
// them all. If a member exits with any other nonzero code, its error would recur, so the run ends with that error.
//
// When a group ends, one crash is counted against each member that died from a signal not sent by the supervisor or
// from a fault of its GPU. If there are none, it is counted against each member that had to be killed, and if there are
// none of those either, against all members. A member with more than max_restarts crashes is lost, and the group
// continues without it:
//
//   members      a  b  c  d        index in the group  0  1  2  3
//   b is lost    a     c  d                            0     1  2      RoleSpec::renumbered returns each new spec
//
// With fewer than min_members members, the run fails.
//
// If a role fails while there is an obstacle such as a full disk, it restarts once the obstacle is gone. This does not
// count as a crash, and does not end the run even if the role is the deciding one.
//
// Starting a process can fail, for example if there are no free process ids or file descriptors. Except when the run
// first starts, the start is retried up to max_restarts times in a row. The delay doubles after each attempt. This does
// not count as a crash.
//
// Not thread safe. One thread must start and run it. Children are killed when that thread exits, even while they are
// still loading.
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

// Exit code for a group member that lost another member.
inline constexpr int kGroupLostExit = 75;
// Exit code for a role that shut down cleanly on SIGTERM. Counts as a crash if the supervisor did not send the signal.
inline constexpr int kStoppedExit = 143;
// Exit code for a role whose GPU failed (base::DeviceFailure). Counts as a crash, because only a new process can use the
// GPU.
inline constexpr int kDeviceFailedExit = 76;
// Exit code for a role that rejects its configuration or this machine (app/run/process.h). A role that exits this way
// on its first start is not restarted, because it would fail the same way.
inline constexpr int kRejectedExit = 2;

struct RoleSpec {
  std::string name;
  std::vector<std::string> argv;
  std::vector<std::string> restart_extra;  // extra arguments for restarts (trainer: --resume)
  // Secrets to write to the process's stdin each time it starts, because arguments and the environment are too visible.
  // stdin is a socket that ends after the secrets. At most 64 KiB. Empty = stdin is /dev/null.
  std::string input;
  std::string log_path;
  std::string group;  // roles in the same group restart together; empty = no group
  // Returns the spec for the same member (name and log) as index `index` in a group of `size`. Null = the group needs
  // all its members.
  std::function<RoleSpec(int index, int size)> renumbered;
  bool decides = false;     // when it exits, the run ends with its exit code
  bool may_finish = false;  // exit code 0 means that its work is complete, so it is not restarted
  int wave = 0;             // at the end of the run, it stops after all roles in lower waves, which may depend on it
  std::chrono::milliseconds stop_grace{15000};  // time between SIGTERM and SIGKILL at the end of the run
  bool inherits_stdout = false;                 // true = prints to the terminal; false = prints to its log
};

// The supervisor's view of a role.
struct RoleState {
  std::string name;
  pid_t pid = -1;  // -1 = not running
  int restarts = 0;
  bool done = false;

  bool operator==(const RoleState&) const = default;
};

struct SupervisorOptions {
  int max_restarts = 3;  // restarts per role; one more crash ends the run or, in a group, loses the member
  // A role's earlier crashes no longer count after it has run for this long.
  std::chrono::milliseconds forget_after = std::chrono::hours(1);
  int min_members = 1;  // the group continues with at least this many members
  std::chrono::milliseconds restart_delay{500};
  // Time between a group's first exit and SIGKILL for the remaining members, so that a member can still exit with its
  // own error.
  std::chrono::milliseconds group_grace{3000};
  const base::Clock* clock = &base::Clock::Real();
  // Called on Run's thread with all roles whenever one changes. May be null.
  std::function<void(const std::vector<RoleState>&)> on_states;
  // Polled on Run's thread for additional roles to start. Null = none.
  std::function<std::vector<RoleSpec>()> arrivals;
  // Returns why a role cannot succeed right now. Called after a role fails, and repeatedly until it may restart. If it
  // returns an empty string, there is no obstacle. Null = there are never obstacles.
  std::function<std::string()> obstacle;
};

class Supervisor {
 public:
  explicit Supervisor(SupervisorOptions options) : options_(std::move(options)) {}
  ~Supervisor();

  // Starts one of the initial roles. Does not retry on failure.
  absl::Status Start(RoleSpec spec);

  // Runs until the deciding role has ended and all others have stopped. Returns the deciding role's exit code. Once
  // `stop` returns true, the run shuts down cleanly. `on_status` receives one line per change of a role's state. After
  // all roles have stopped, it receives one line with the reason why the run ended.
  absl::StatusOr<int> Run(const std::function<bool()>& stop, const std::function<void(const std::string&)>& on_status);

 private:
  using OnStatus = std::function<void(const std::string&)>;
  struct Role {
    RoleSpec spec;
    pid_t pid = -1;
    int restarts = 0;       // for a group member, the number of crashes counted against it
    int failed_starts = 0;  // consecutive
    bool has_run = false;
    bool done = false;
    bool killed = false;                                  // killed by the supervisor, because it outlived its group
    bool died = false;                                    // exited by itself, which ended its group
    std::unique_ptr<base::Wait> held;                     // set while an obstacle delays starting it again
    std::chrono::nanoseconds started{0}, start_after{0};  // times on the clock
  };
  // A group where a member has exited and the others are being stopped.
  struct EndingGroup {
    std::string first;  // describes the first exit
    std::string error;  // error of the member that failed by itself; empty = none
    std::chrono::nanoseconds kill_after{0};
  };

  // How and why the run ended.
  struct Ending {
    absl::StatusOr<int> code;
    std::string why;
  };

  static absl::StatusOr<pid_t> Spawn(const RoleSpec& spec, bool again);
  // Returns "NAME exited with 3: ERROR; see LOG". ERROR is the last error that the role printed, if any.
  static std::string Describe(const Role& role, int wait_status);
  absl::Status Begin(Role& role) const;
  // Same as Begin, but schedules a retry if the role cannot be started. Returns ABORTED after too many failures.
  absl::Status BeginOrDefer(Role& role, const OnStatus& on_status) const;
  // Manages all roles until the run ends. Does not stop the roles that are still running at the end.
  Ending TendAll(const std::function<bool()>& stop, const OnStatus& on_status);
  // Starts `role` if it is due, or reaps it if it has ended. Returns the ending if this ends the run.
  absl::StatusOr<std::optional<Ending>> Tend(Role& role, const OnStatus& on_status);
  void NoteGroupEnd(Role& role, int wait_status, const OnStatus& on_status);
  // HoldIfObstructed delays the restart of a failed role if there is an obstacle. IsHeld returns whether the obstacle
  // still blocks the restart.
  void HoldIfObstructed(Role& role) const;
  bool IsHeld(Role& role, const OnStatus& on_status) const;
  static std::string StartOf(const Role& role, const std::string& obstacle);
  absl::Status TendGroups(const OnStatus& on_status);
  // Returns ABORTED after too many restarts.
  absl::Status Restart(Role& role, const std::string& why);
  absl::Status RestartGroup(const std::string& name, const std::string& why, const OnStatus& on_status);
  // Removes the `lost` members and renumbers the others. Returns ABORTED if too few are left.
  absl::Status ContinueWithout(const std::vector<std::string>& lost, const std::string& name, const std::string& why,
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
