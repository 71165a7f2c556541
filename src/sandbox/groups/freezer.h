// A Freezer makes the commands of one sandbox stand still at one instant, so that nobody changes its files while they are copied. It
// is a control group: no signal, timer or right of a process in it lets it run on, as SIGCONT would after SIGSTOP.
//
//   version 2   cgroup.freeze in OWN/ingot-PID-K/N, or in the group `commands` of a sandbox that has its totals by version 2
//   version 1   freezer.state in freezer/OWN/ingot-PID-K/N
//
// Commands enter it between vfork and exec (launcher/command.h), and whatever they start is in it too. The sandbox's first process
// stays outside: it ends a frozen command that is to be killed, and a frozen sandbox whose owner died. A Freezer is used by one
// thread at a time.
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

// The commands of a sandbox stand still as long as it lives.
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
  // Removes the group: its processes run on, and end at once.
  ~Freezer();
  Freezer(const Freezer&) = delete;
  Freezer& operator=(const Freezer&) = delete;

  // Blocks until all processes stand still. UNAVAILABLE: one did not within `timeout`, and all run on.
  absl::StatusOr<StandStill> Freeze(std::chrono::milliseconds timeout = std::chrono::seconds(30)) const;
  // False: they were let go meanwhile, as for their end.
  bool IsFrozen() const;

  int version() const { return version_; }
  int entrance() const { return entrance_.get(); }  // a command writes "0" into it
  int state() const { return state_.get(); }        // whoever ends the sandbox writes into it that they may run

 private:
  friend class Freezers;
  friend class StandStill;
  explicit Freezer(int version) : version_(version) {}
  bool Set(bool frozen) const;
  // Whoever ends the commands let them run after Set(true).
  bool IsLetGo() const;

  const int version_;
  std::string folder_;
  Fd entrance_, state_;
};

class Freezers {
 public:
  // `totals`: the version of the control groups that hold sandboxes' totals; 0 = none. `only`: the one version to try; 0 = 2, then 1.
  // FAILED_PRECONDITION: there is none; the message names the file.
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
  const std::string folder_;  // of this process's sandboxes; empty = each is in the group of a sandbox's totals
  std::atomic<uint64_t> next_{0};
};

}  // namespace ingot::sandbox
