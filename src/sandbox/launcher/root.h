// Builds the root folder for sandboxes with kRootFolder, once per launcher. It is a read-only in-memory folder that
// contains the paths from SetUp, the work root, and some devices, but nothing else from the machine. Each sandbox gets
// a copy of these mounts and adds its own /proc, folder, /tmp, /dev/shm, and /dev/pts. A sandbox with an image sees the
// image instead of the shown paths.
#pragma once

#include <cstdint>

#include "sandbox/launch_messages.h"

namespace ingot::sandbox::launcher {

struct RootPlan {
  const char* work_root = nullptr;
  char** visible = nullptr;
  uint32_t visible_count = 0;
  char** sources = nullptr;  // paths that are, or contain, image root folders
  uint32_t source_count = 0;
  bool maps_owners = false;  // see shown.h; requires root on the host
};

// Builds the root folder and makes it this process's root. Skips missing paths. Returns 0 or errno.
int BuildRoot(const RootPlan& plan);

// One sandbox's folders.
struct SandboxPlan {
  const SandboxHeader* header = nullptr;
  const char* work_root = nullptr;
  const char* sandbox = nullptr;  // "" = none
  const char* image = nullptr;    // "" = none
  char** layers = nullptr;
  char** binds = nullptr;
  int freezer_entrance = -1, freezer_state = -1;  // -1 = none
};

// Mounts an empty /dev/shm of this size at `path`. Returns 0 or errno.
int MountShm(const char* path, uint32_t bytes);

// Sets up a sandbox in its own mount namespace. `fds` receives work/ and home/ if they are layered, and -1 otherwise.
// REQUIRES: BuildRoot was called with the same visible paths.
LaunchFailure EnterSandbox(const SandboxPlan& plan, uint32_t isolation, char** visible, uint32_t visible_count,
                           int (&fds)[2]);

}  // namespace ingot::sandbox::launcher
