// The messages between Ingot (sandbox/image/build_sandbox.h) and the launcher's program when it runs a build
// (launcher/build.cc). Plain values, as in launch_messages.h.
//
//   Ingot ── order ──▶ keeper outside         one byte; descriptors: a BuildHeader's file, entrances of control groups
//   keeper outside ── LaunchReport ──▶ Ingot  with a pidfd of the sandbox's first process
//   first process ── LaunchReport ──▶ Ingot   once the wall stands, with the listening socket inside
#pragma once

#include <cstdint>

namespace ingot::sandbox {

// The argument that makes the launcher's program run a build.
inline constexpr char kBuildMode[] = "build";

// Where a build sees its scratch folder: a place of the root folder of sandboxes (launcher/root.h) that no folder of a
// machine has.
inline constexpr char kBuildScratch[] = "/.image";

// Follows: the scratch folder, which has var/, tmp/ and a file passwd; `visible` paths; `arguments`, of which the first
// is an absolute path; `variables`; the filter.
struct BuildHeader {
  uint32_t first_id = 0;  // outside; uid and gid of the id 0 inside
  uint32_t ids = 0;       // how many there are
  uint32_t visible = 0;
  uint32_t arguments = 0;
  uint32_t variables = 0;
  uint32_t filter_bytes = 0;
};

}  // namespace ingot::sandbox
