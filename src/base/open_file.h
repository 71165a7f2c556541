// Opens files that others named or made. None of these functions waits: a named pipe in place of a file would block its
// reader until someone writes. They check the file after opening it, so a swap between a check and a use gains nothing.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/status.h"

namespace ingot::base {

// "a folder", "a named pipe (FIFO)", "a socket", "a device", "a link" or "a file".
const char* KindOfFile(const struct stat& info);

// Opens `path` for reading: a file, a device, or the pipe of a shell's <(command) or of stdin. NOT_FOUND: no such file.
// INVALID_ARGUMENT: a folder, a named pipe or a socket. UNAVAILABLE: it cannot be opened. Errors name the path and the reason.
absl::StatusOr<Fd> OpenToRead(const std::string& path);

// Which links a path may have on its way and at its end.
enum class PathLinks {
  kInside,  // links that stay in the folder; no links on a kernel without openat2(2), which came with Linux 5.6
  kNone,    // no link, and no mount point: for a folder that an agent made, or may be changing at this moment
};

// Flags of a folder to list and to walk through.
inline constexpr int kOpenFolder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// Opens `relative` in the folder `folder` with the flags of open(2). The path cannot leave the folder by ".." or by a
// link, even if another process changes the folder meanwhile. Invalid: errno is EXDEV if the path leads out (ELOOP or
// ENOTDIR for a link that is not followed), or says why it cannot be opened.
Fd OpenBeneath(int folder, const std::string& relative, int flags, PathLinks links = PathLinks::kInside);

// The rest of an open file. `path`: for errors. INVALID_ARGUMENT: more than `max_bytes`. UNAVAILABLE: it cannot be read.
absl::StatusOr<std::string> ReadOpenFile(const Fd& file, const std::string& path, int64_t max_bytes);

}  // namespace ingot::base
