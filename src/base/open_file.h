// Opens files with untrusted names or contents. These functions never block, so nobody can hang the reader by replacing
// a file with a named pipe that has no writer. They check the file after opening it, so replacing it between a check
// and the open has no effect.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/status.h"

namespace ingot::base {

// Returns "a folder", "a named pipe (FIFO)", "a socket", "a device", "a link", or "a file".
const char* KindOfFile(const struct stat& info);

// Opens `path` for reading. It may be a file, a device, or a pipe from stdin or the shell's <(command). Returns
// NOT_FOUND if there is no such file, INVALID_ARGUMENT for a folder, a named pipe, or a socket, and UNAVAILABLE if it
// cannot be opened. Errors include the path and the reason.
absl::StatusOr<Fd> OpenToRead(const std::string& path);

// Specifies which links a path may contain.
enum class PathLinks {
  kInside,  // links that stay in the folder; no links on kernels without openat2(2), added in Linux 5.6
  kNone,    // no links and no mount points; for a folder that an agent created or may change concurrently
};

// Flags for opening a folder in order to list or traverse it.
inline constexpr int kOpenFolder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// Opens the path `relative` in `folder` with open(2) flags. The path cannot leave the folder through ".." or a link,
// even if another process changes the folder concurrently. On failure, the result is invalid and errno is set. errno is
// EXDEV if the path leads outside, and ELOOP or ENOTDIR for a link that is not followed.
Fd OpenBeneath(int folder, const std::string& relative, int flags, PathLinks links = PathLinks::kInside);

// Reads an open file to the end. `path` is used in errors. Returns INVALID_ARGUMENT if more than `max_bytes` remain, or
// UNAVAILABLE if the file cannot be read.
absl::StatusOr<std::string> ReadOpenFile(const Fd& file, const std::string& path, int64_t max_bytes);

}  // namespace ingot::base
