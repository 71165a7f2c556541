// Determines which paths recipe programs need: those that sandboxes must be able to access, and those that a sandbox's
// root folder must contain.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "sandbox/substrate.h"

namespace ingot::sandbox {

struct NeededPath {
  std::string program;  // Program::name
  std::string path;
  bool executes = false;
};

// Returns the paths in the programs' arguments that this process can find. Skips missing paths, which are not an access
// problem.
std::vector<NeededPath> NeededPaths(const std::vector<Program>& programs);

// Returns INVALID_ARGUMENT if a program is inside a hidden path.
absl::Status CheckNotHidden(const SubstrateOptions& options);

// Returns the paths to show in sandboxes' root folders: system programs and settings, the programs' folders, and
// options.visible. If a program's folder also contains this user's files, only the program file is shown.
std::vector<std::string> ShownPaths(const SubstrateOptions& options);

// Returns the paths in the options that are, or contain, image root folders.
std::vector<std::string> ImageSources(const SubstrateOptions& options);

// Removes hidden paths from ShownPaths, for rules that cannot exclude part of a folder. A folder that contains a hidden
// path is replaced by its other entries.
std::vector<std::string> WithoutHidden(const std::vector<std::string>& shown, const std::vector<std::string>& hidden);

// Describes why other users cannot reach an absolute path: "/root has mode 0700" for the first folder that they cannot
// traverse, or otherwise the path's own mode.
std::string ClosedPart(const std::string& path);

// Returns the path with links and dots resolved, or unchanged if it cannot be resolved.
std::string Canonical(const std::string& path);

// Returns whether a folder contains more than programs. This is true of / and this user's home, for example.
bool IsTooWide(const std::string& folder);

bool IsWithin(const std::string& path, const std::string& folder);

}  // namespace ingot::sandbox
