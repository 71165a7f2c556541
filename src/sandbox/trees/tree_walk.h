// Walks a folder that an agent may have built to break the walk, with nesting deeper than PATH_MAX or the descriptor
// limit, or with folders that move during the walk. Descends by name, ascends by "..", and never follows links.
#pragma once

#include <sys/stat.h>

#include <string>

#include "base/status.h"

namespace ingot::sandbox {

// Receives everything found in a walk. The walk stops at the first error.
class TreeVisitor {
 public:
  virtual ~TreeVisitor() = default;

  // Called for each entry `name` in `folder` that is not a folder, before any subfolder is entered. The visitor may
  // remove the entry.
  virtual absl::Status File(int folder, const std::string& name, const struct stat& info) = 0;
  // Called for each folder below the top, along with the files next to it.
  virtual absl::Status Found(const struct stat& /*folder*/) { return absl::OkStatus(); }
  // Called before a folder is opened. For the top folder, the arguments are WalkTree's `parent` and `name`. Code that
  // changes its mode by name must not follow links, because an agent may replace the folder with a link at any time.
  virtual absl::Status Enter(int parent, const std::string& name, const struct stat& info) = 0;
  // Called after everything in `folder`: first Leave from inside, then Left from its parent. Neither is called for a
  // folder that was moved during the walk.
  virtual absl::Status Leave(int /*folder*/, const struct stat& /*info*/) { return absl::OkStatus(); }
  virtual absl::Status Left(int /*parent*/, const std::string& /*name*/) { return absl::OkStatus(); }
  // Called if `name` cannot be examined, opened, or read, with the reason in errno. Return OK to skip it.
  virtual absl::Status Failed(const std::string& name) = 0;
};

// Returns whether an owner other than root must change the folder's mode to walk it.
bool IsClosed(const struct stat& info);

// Walks `name`, a folder in `parent`. Returns RESOURCE_EXHAUSTED if folders move so often that the walk would not end.
absl::Status WalkTree(int parent, const std::string& name, TreeVisitor& visitor);
// Same as above, but for a path whose parent folders only this process controls. The visitor receives AT_FDCWD and the
// path.
absl::Status WalkTree(const std::string& top, TreeVisitor& visitor);

}  // namespace ingot::sandbox
