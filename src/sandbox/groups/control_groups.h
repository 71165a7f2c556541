// Limits a sandbox's total memory, processes, and CPU with control groups. Writes the cgroup files (version 1 or 2)
// directly.
//
//   version 1   one folder per controller: memory/OWN/ingot-PID-K/N, pids/OWN/ingot-PID-K/N, cpu/OWN/ingot-PID-K/N
//   version 2   one folder: OWN/ingot-PID-K/N, if OWN's controllers are delegated to this user
//
// The next Make removes groups that dead processes left (group_tree.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "sandbox/groups/group_tree.h"
#include "sandbox/spawn.h"

namespace ingot::sandbox {

struct GroupLimits {
  int64_t memory_bytes = 0;  // 0 = no limit; likewise for the other fields
  int64_t processes = 0;     // includes threads
  double cpus = 0;           // 0.5 = half of one core's time
  bool operator==(const GroupLimits&) const = default;
};

// One sandbox's group. The destructor removes its folders. REQUIRES: no process is in the group at that time.
class ControlGroup {
 public:
  ~ControlGroup();
  ControlGroup(ControlGroup&&) = default;
  ControlGroup& operator=(ControlGroup&&) = default;

  // A process enters the group by writing "0" to these files.
  const std::vector<Fd>& entrances() const { return entrances_; }
  // Returns how many processes the kernel has killed because memory_bytes was reached, or 0 if the kernel does not
  // report it.
  int64_t MemoryKills() const;
  // The group's folder in cgroup version 2; empty = version 1 is used.
  const std::string& folder2() const { return folder2_; }

 private:
  friend class ControlGroups;
  ControlGroup() = default;
  std::vector<std::string> folders_;
  std::vector<Fd> entrances_;
  std::string memory_folder_, folder2_;
};

class ControlGroups {
 public:
  // Returns FAILED_PRECONDITION, naming the file, if memory, pids, or cpu is not available.
  static absl::StatusOr<std::unique_ptr<ControlGroups>> Make(GroupTree tree = {});
  ~ControlGroups();

  absl::StatusOr<ControlGroup> NewGroup(const GroupLimits& limits);

  int version() const { return version_; }

 private:
  struct Controller {
    std::string name;    // "memory", "pids", or "cpu"
    std::string folder;  // parent of this process's sandbox groups
  };
  explicit ControlGroups(GroupTree tree) : tree_(std::move(tree)) {}
  absl::Status FindVersion1();
  absl::Status FindVersion2();

  const GroupTree tree_;
  int version_ = 0;
  std::vector<Controller> controllers_;
  std::atomic<uint64_t> next_{0};
};

}  // namespace ingot::sandbox
