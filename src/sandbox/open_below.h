// Opens what lies below a folder that an agent made, or may be changing at this moment. The runner's rights reach further than
// the agent's, so a path is never trusted: no link is followed, and the way leads neither out of the folder nor into another
// mount (openat2; on kernels before 5.6 one part of the path at a time).
#pragma once

#include <fcntl.h>
#include <sys/types.h>

#include <string>

#include "sandbox/spawn.h"

namespace ingot::sandbox {

// A folder to list and to walk through.
inline constexpr int kOpenFolder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// `path`: relative, without "..". Not valid: errno says why, ELOOP or ENOTDIR for a link on the way.
Fd OpenBelow(int folder, const std::string& path, int flags, mode_t mode = 0);

}  // namespace ingot::sandbox
