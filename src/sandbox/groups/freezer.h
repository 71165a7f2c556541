// A Freezer freezes the commands of one sandbox at one instant, so that its files do not change while they are copied.
// It is a control group: no signal, timer or right of a frozen process lets it resume, as SIGCONT would after SIGSTOP.
//
//   version 2   cgroup.freeze in OWN/ingot-PID-K/N, or in the group `commands` of a sandbox with totals by version 2
//   version 1   freezer.state in freezer/OWN/ingot-PID-K/N
//
// Commands enter it between vfork and exec (launcher/command.h), and so does all that they start. The sandbox's first
// process stays outside: it ends a frozen command that is to be killed, and a frozen sandbox whose owner died. A
// Freezer is used by one thread at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/status.h"
#include "sandbox/groups/control_groups.h"
#include "sandbox/groups/group_tree.h"
#include "sandbox/spawn.h"

namespace ingot::sandbox {

class Freezer;

// The commands of a sandbox stay frozen as long as this object lives.
class StandStill {
 public:
  explicit StandStill(const Freezer& freezer) : freezer_(&freezer) {}
  ~StandStill();
  StandStill(StandStill&& other) noexcept : freezer_(std::exchange(other.freezer_, nullptr)) {}
  StandStill& operator=(StandStill&&) = delete;

 private:
  const Freezer* freezer_;
};

class Freezer {
 public:
  // Removes the group: its processes resume, and end at once.
  ~Freezer();
  Freezer(const Freezer&) = delete;
  Freezer& operator=(const Freezer&) = delete;

  // Blocks until all processes are frozen. UNAVAILABLE: one was not within `timeout`, and all resume.
  absl::StatusOr<StandStill> Freeze(std::chrono::milliseconds timeout = std::chrono::seconds(30)) const;
  // False: the processes were thawed meanwhile, such as to end them.
  bool IsFrozen() const;

  int version() const { return version_; }
  int entrance() const { return entrance_.get(); }  // a command writes "0" into it
  int state() const { return state_.get(); }        // written to thaw the commands when the sandbox is ended

 private:
  friend class Freezers;
  friend class StandStill;
  explicit Freezer(int version) : version_(version) {}
  bool Set(bool frozen) const;
  // True: the commands were thawed after Set(true) so that they could end.
  bool IsLetGo() const;

  const int version_;
  std::string folder_;
  Fd entrance_, state_;
};

class Freezers {
 public:
  // `totals`: the version of the control groups that hold sandboxes' totals; 0 = none. `only`: the one version to try;
  // 0 = 2, then 1. FAILED_PRECONDITION: not available; the message names the file.
  static absl::StatusOr<std::unique_ptr<Freezers>> Make(int totals, int only = 0, GroupTree tree = {});
  ~Freezers();

  // `totals`: the sandbox's group; null = none. It outlives the Freezer.
  absl::StatusOr<std::unique_ptr<Freezer>> NewFreezer(const ControlGroup* totals);

  int version() const { return version_; }

 private:
  Freezers(GroupTree tree, int version, std::string folder)
      : tree_(std::move(tree)), version_(version), folder_(std::move(folder)) {}
  static absl::StatusOr<std::unique_ptr<Freezers>> MakeVersion(int version, const GroupTree& tree);

  const GroupTree tree_;
  const int version_;
  const std::string folder_;  // of this process's sandboxes; empty = each is in the group of its sandbox's totals
  std::atomic<uint64_t> next_{0};
};

}  // namespace ingot::sandbox
