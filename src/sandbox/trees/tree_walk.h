// WalkTree walks a folder that an agent may have made to break the walk: nested deeper than PATH_MAX or the limit of
// descriptors allows, with folders that move during the walk. It goes down by names and up by "..", never through a
// link.
#pragma once

#include <sys/stat.h>

#include <string>

#include "base/status.h"

namespace ingot::sandbox {

// A TreeVisitor acts on everything that a walk meets. If a call returns an error, the walk ends.
class TreeVisitor {
 public:
  virtual ~TreeVisitor() = default;

  // Anything but a folder, `name` in `folder`. Called before any folder in `folder`. The visitor may remove it.
  virtual absl::Status File(int folder, const std::string& name, const struct stat& info) = 0;
  // A folder below the top. Called along with the files next to it.
  virtual absl::Status Found(const struct stat& /*folder*/) { return absl::OkStatus(); }
  // Before a folder is opened. For the top folder it gets WalkTree's own `parent` and `name`. Code that changes its
  // mode by name must not follow a link: an agent may put one there at any time.
  virtual absl::Status Enter(int parent, const std::string& name, const struct stat& info) = 0;
  // After everything in `folder`: Leave from inside, then Left from its parent. Neither is called for a folder that was
  // moved during the walk.
  virtual absl::Status Leave(int /*folder*/, const struct stat& /*info*/) { return absl::OkStatus(); }
  virtual absl::Status Left(int /*parent*/, const std::string& /*name*/) { return absl::OkStatus(); }
  // `errno` says why `name` cannot be looked at, opened or read. Return OK to skip it.
  virtual absl::Status Failed(const std::string& name) = 0;
};

// True if an owner other than root has to change the mode of the folder `info` to walk it.
bool IsClosed(const struct stat& info);

// Walks `name`, a folder in `parent`. RESOURCE_EXHAUSTED: folders moved so often that the walk would not end.
absl::Status WalkTree(int parent, const std::string& name, TreeVisitor& visitor);
// The same for a path whose folders only this process controls: the visitor gets AT_FDCWD and the path.
absl::Status WalkTree(const std::string& top, TreeVisitor& visitor);

}  // namespace ingot::sandbox
