// The root folder of sandboxes, with kRootFolder. The launcher builds it once: a read-only folder in memory with the
// paths that SetUp shows, the work root, some devices, and nothing else of the machine. Each sandbox gets a copy of
// these mounts and adds its own: /proc, its folder, /tmp, /dev/shm and /dev/pts. A sandbox with an image sees the image
// in place of the shown paths.
#pragma once

#include <cstdint>

#include "sandbox/launch_messages.h"

namespace ingot::sandbox::launcher {

struct RootPlan {
  const char* work_root = nullptr;
  char** visible = nullptr;
  uint32_t visible_count = 0;
  char** sources = nullptr;  // paths at or below which root folders of images may lie
  uint32_t source_count = 0;
  bool maps_owners = false;  // shown.h; needs root of the machine
};

// Makes the root folder and moves this process there. Paths that are missing are skipped. Returns 0 or errno.
int BuildRoot(const RootPlan& plan);

// The folders of one sandbox.
struct SandboxPlan {
  const SandboxHeader* header = nullptr;
  const char* work_root = nullptr;
  const char* sandbox = nullptr;  // "" = none
  const char* image = nullptr;    // "" = none
  char** layers = nullptr;
  char** binds = nullptr;
  int freezer_entrance = -1, freezer_state = -1;  // -1 = none
};

// Mounts an empty /dev/shm of so many bytes at `path`. Returns 0 or errno.
int MountShm(const char* path, uint32_t bytes);

// In a sandbox's own mount namespace, after BuildRoot with the same visible paths. `fds`: work/ and home/ if they are
// layered, else -1.
LaunchFailure EnterSandbox(const SandboxPlan& plan, uint32_t walls, char** visible, uint32_t visible_count,
                           int (&fds)[2]);

}  // namespace ingot::sandbox::launcher
