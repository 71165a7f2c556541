// Creates and removes this process's control groups, which are below its own group:
//
//   OWN/ingot-PID-K/N         group of sandbox N
//   OWN/ingot-PID-K/N/commands   version 2: group of N's commands, if N has limits (freezer.h)
//
// OWN is this process's group in a controller's hierarchy (version 1) or in the unified hierarchy (version 2).
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ingot::sandbox {

// Lets tests use a tree of plain files instead of the kernel's.
struct GroupTree {
  std::string root = {};                                     // prefix for paths in /proc and /sys
  std::function<void(const std::string& folder)> fill = {};  // creates the files in each new folder
};

inline constexpr char kCommandsGroup[] = "commands";
// The group below OWN (version 2) that contains this process if OWN may not contain processes.
inline constexpr std::string_view kLeafGroup = "/ingot-main";

// Returns the folder OWN. `controller` is for version 1; empty = version 2. Returns FAILED_PRECONDITION if the
// hierarchy is not mounted.
absl::StatusOr<std::string> OwnGroup(const GroupTree& tree, const std::string& controller);

// Creates OWN/ingot-PID-K and removes the groups of dead processes.
absl::StatusOr<std::string> MakeSandboxesGroup(const GroupTree& tree, const std::string& own);

// Returns false, with the reason in errno, if the group cannot be created.
bool MakeGroup(const GroupTree& tree, const std::string& folder);

// Removes the group. Waits briefly for killed processes to exit.
void RemoveGroup(const std::string& folder);

absl::Status WriteGroupFile(const std::string& path, const std::string& value);

}  // namespace ingot::sandbox
