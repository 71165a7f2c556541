// The paths that recipes' programs need: which ones sandboxes must reach, and which ones a root folder of sandboxes
// must show.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "sandbox/substrate.h"

namespace ingot::sandbox {

struct Wish {
  std::string program;  // Program::name
  std::string path;
  bool executes = false;
};

// The paths that the programs name and that exist for this process. Missing paths are not a question of rights.
std::vector<Wish> Wishes(const std::vector<Program>& programs);

// INVALID_ARGUMENT: a program lies among the hidden paths.
absl::Status CheckNotHidden(const SubstrateOptions& options);

// The paths of a root folder of sandboxes: the system's programs and settings, folders of the programs, and
// options.visible. A folder that holds this user's files is never shown for a program in it; only the program's file
// is.
std::vector<std::string> ShownPaths(const SubstrateOptions& options);

// The paths of options at or below which root folders of images may lie.
std::vector<std::string> ImageSources(const SubstrateOptions& options);

// ShownPaths without hidden paths, for rules that cannot take a part out of a folder: a folder that holds one is
// replaced by its other entries.
std::vector<std::string> WithoutHidden(const std::vector<std::string>& shown, const std::vector<std::string>& hidden);

// The first part of an absolute path that other users cannot pass, or the path itself: "/root has mode 0700".
std::string ClosedPart(const std::string& path);

// Without links and dots; the path itself where it cannot be resolved.
std::string Canonical(const std::string& path);

// True: a folder that holds more than programs, such as / or this user's home.
bool IsTooWide(const std::string& folder);

bool IsWithin(const std::string& path, const std::string& folder);

}  // namespace ingot::sandbox
