// Control groups of sandboxes: totals of memory, processes and CPU. The files of version 1 and version 2 are written
// directly.
//
//   version 1   one folder per controller: memory/OWN/ingot-PID-K/N, pids/OWN/ingot-PID-K/N, cpu/OWN/ingot-PID-K/N
//   version 2   one folder: OWN/ingot-PID-K/N, where OWN's controllers are delegated to this user
//
// Groups of processes that are gone are removed by the next Make (group_tree.h).
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
  int64_t memory_bytes = 0;  // 0 = no limit, here and below
  int64_t processes = 0;     // threads count
  double cpus = 0;           // 0.5 = half of one core's time
  bool operator==(const GroupLimits&) const = default;
};

// The group of one sandbox. Its destructor removes the folders: no process may be in them.
class ControlGroup {
 public:
  ~ControlGroup();
  ControlGroup(ControlGroup&&) = default;
  ControlGroup& operator=(ControlGroup&&) = default;

  // Files that a process writes "0" into to enter.
  const std::vector<Fd>& entrances() const { return entrances_; }
  // How often the kernel killed a process because memory_bytes were used; 0 if the kernel does not report it.
  int64_t MemoryKills() const;
  // With version 2; otherwise "".
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
  // FAILED_PRECONDITION: memory, pids or cpu is not available; the message names the file.
  static absl::StatusOr<std::unique_ptr<ControlGroups>> Make(GroupTree tree = {});
  ~ControlGroups();

  absl::StatusOr<ControlGroup> NewGroup(const GroupLimits& limits);

  int version() const { return version_; }

 private:
  struct Controller {
    std::string name;    // "memory", "pids" or "cpu"
    std::string folder;  // of this process's sandboxes
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
