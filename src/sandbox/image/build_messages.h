// Defines the messages between Ingot (sandbox/image/build_sandbox.h) and the launcher program when it runs a build
// (launcher/build.cc). Only plain values, as in launch_messages.h.
//
//   Ingot ── request ──▶ keeper outside       one byte; descriptors: a BuildHeader's file, control group entrances
//   keeper outside ── LaunchReport ──▶ Ingot  with a pidfd of the sandbox's first process
//   first process ── LaunchReport ──▶ Ingot   once the isolation is set up, with the sandbox's listening socket
#pragma once

#include <cstdint>

namespace ingot::sandbox {

// The argument that makes the launcher program run a build.
inline constexpr char kBuildMode[] = "build";

// The path of a build's scratch folder in its sandbox's root folder (launcher/root.h). It does not exist on the host.
inline constexpr char kBuildScratch[] = "/.image";

// Followed by the scratch folder (which contains var/, tmp/, and a passwd file), `visible` paths, `arguments` strings
// (the first is an absolute path), `variables` strings, and the filter.
struct BuildHeader {
  uint32_t first_id = 0;  // host uid and gid that map to id 0 in the sandbox
  uint32_t ids = 0;       // number of mapped ids
  uint32_t visible = 0;
  uint32_t arguments = 0;
  uint32_t variables = 0;
  uint32_t filter_bytes = 0;
};

}  // namespace ingot::sandbox
