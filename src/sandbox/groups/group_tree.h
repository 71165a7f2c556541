// The tree of control groups, in which this process makes groups below its own:
//
//   OWN/ingot-PID-K/N         of the sandbox N
//   OWN/ingot-PID-K/N/commands   with version 2: of its commands, where N has its totals (freezer.h)
//
// OWN is this process's group in the hierarchy of a controller (version 1), or in the one of version 2.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ingot::sandbox {

// For tests: a tree of plain files in place of the kernel's.
struct GroupTree {
  std::string root = {};                                     // put before the paths of /proc and /sys
  std::function<void(const std::string& folder)> fill = {};  // gives each new folder its files
};

inline constexpr char kCommandsGroup[] = "commands";
// Below OWN, with version 2: holds this process if OWN may hold none.
inline constexpr std::string_view kLeafGroup = "/ingot-main";

// The folder OWN. `controller`: of version 1; empty = of version 2. FAILED_PRECONDITION: it is not mounted.
absl::StatusOr<std::string> OwnGroup(const GroupTree& tree, const std::string& controller);

// Makes OWN/ingot-PID-K, and removes groups of processes that are gone.
absl::StatusOr<std::string> MakeSandboxesGroup(const GroupTree& tree, const std::string& own);

// False: it cannot be made; errno says why.
bool MakeGroup(const GroupTree& tree, const std::string& folder);

// Waits a moment for processes that were killed to leave.
void RemoveGroup(const std::string& folder);

absl::Status WriteGroupFile(const std::string& path, const std::string& value);

}  // namespace ingot::sandbox
