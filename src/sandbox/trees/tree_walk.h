// WalkTree goes through a folder that an agent may have made to break the walk: deeper than any path may be long or a
// process may have descriptors, with folders that move meanwhile. It goes down by names and up by "..", never through a
// link.
#pragma once

#include <sys/stat.h>

#include <string>

#include "base/status.h"

namespace ingot::sandbox {

// A TreeVisitor acts on everything that a walk meets. An error of a call ends the walk.
class TreeVisitor {
 public:
  virtual ~TreeVisitor() = default;

  // Anything but a folder, `name` in `folder`. Called before any folder in `folder`. The visitor may remove it.
  virtual absl::Status File(int folder, const std::string& name, const struct stat& info) = 0;
  // A folder, not the top, called with the files next to it.
  virtual absl::Status Found(const struct stat& /*folder*/) { return absl::OkStatus(); }
  // Before a folder is opened. The top: the walk's own parent and name. Code that changes its mode by name must not
  // follow a link: an agent may put one there at any time.
  virtual absl::Status Enter(int parent, const std::string& name, const struct stat& info) = 0;
  // After everything in `folder`, from within and then from above. A folder that was moved meanwhile is not left.
  virtual absl::Status Leave(int /*folder*/, const struct stat& /*info*/) { return absl::OkStatus(); }
  virtual absl::Status Left(int /*parent*/, const std::string& /*name*/) { return absl::OkStatus(); }
  // `errno` says why `name` cannot be looked at, opened or read. OK: the walk leaves it out.
  virtual absl::Status Failed(const std::string& name) = 0;
};

// True: its user, who is not root, must change the mode of the folder `info` to walk through it.
bool IsClosed(const struct stat& info);

// Walks `name`, a folder in `parent`. RESOURCE_EXHAUSTED: folders moved so often that the walk would not end.
absl::Status WalkTree(int parent, const std::string& name, TreeVisitor& visitor);
// Of a path whose folders belong to this process: the visitor gets AT_FDCWD and the path.
absl::Status WalkTree(const std::string& top, TreeVisitor& visitor);

}  // namespace ingot::sandbox
