// Freezes all of a sandbox's commands at once so that its files do not change while they are copied. It uses a control
// group because a process in a frozen group cannot resume itself with signals, timers, or privileges, whereas SIGSTOP
// can be undone with SIGCONT.
//
//   version 2   cgroup.freeze in OWN/ingot-PID-K/N, or in the group `commands` of a sandbox with version 2 limits
//   version 1   freezer.state in freezer/OWN/ingot-PID-K/N
//
// Commands enter the group between vfork and exec (launcher/command.h), so everything they start is in it too. The
// sandbox's first process stays outside. It can end frozen commands that must be killed, and can end a frozen sandbox
// whose owner has died. Use a Freezer from one thread at a time.
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

// Keeps a sandbox's commands frozen until destroyed.
class ScopedFreeze {
 public:
  explicit ScopedFreeze(const Freezer& freezer) : freezer_(&freezer) {}
  ~ScopedFreeze();
  ScopedFreeze(ScopedFreeze&& other) noexcept : freezer_(std::exchange(other.freezer_, nullptr)) {}
  ScopedFreeze& operator=(ScopedFreeze&&) = delete;

 private:
  const Freezer* freezer_;
};

class Freezer {
 public:
  // Removes the group. Its processes resume and end immediately.
  ~Freezer();
  Freezer(const Freezer&) = delete;
  Freezer& operator=(const Freezer&) = delete;

  // Blocks until all processes are frozen. If that takes longer than `timeout`, all processes resume and UNAVAILABLE is
  // returned.
  absl::StatusOr<ScopedFreeze> Freeze(std::chrono::milliseconds timeout = std::chrono::seconds(30)) const;
  // Returns false if the processes have since been thawed, for example to end them.
  bool IsFrozen() const;

  int version() const { return version_; }
  int entrance() const { return entrance_.get(); }  // a command writes "0" to it
  int state() const { return state_.get(); }        // written to thaw the commands when the sandbox is ended

 private:
  friend class Freezers;
  friend class ScopedFreeze;
  explicit Freezer(int version) : version_(version) {}
  bool Set(bool frozen) const;
  // Returns whether the commands were thawed after Set(true) so that they could end.
  bool IsLetGo() const;

  const int version_;
  std::string folder_;
  Fd entrance_, state_;
};

class Freezers {
 public:
  // `totals` is the cgroup version that limits sandboxes; 0 = none. `only` is the only version to try; 0 = try both,
  // version 2 first. Returns FAILED_PRECONDITION, naming the file, if neither is available.
  static absl::StatusOr<std::unique_ptr<Freezers>> Make(int totals, int only = 0, GroupTree tree = {});
  ~Freezers();

  // `totals` is the sandbox's group; null = none. REQUIRES: it outlives the Freezer.
  absl::StatusOr<std::unique_ptr<Freezer>> NewFreezer(const ControlGroup* totals);

  int version() const { return version_; }

 private:
  Freezers(GroupTree tree, int version, std::string folder)
      : tree_(std::move(tree)), version_(version), folder_(std::move(folder)) {}
  static absl::StatusOr<std::unique_ptr<Freezers>> MakeVersion(int version, const GroupTree& tree);

  const GroupTree tree_;
  const int version_;
  // Parent of this process's freezer groups. Empty = each group is inside its sandbox's limit group.
  const std::string folder_;
  std::atomic<uint64_t> next_{0};
};

}  // namespace ingot::sandbox
