// Whole files as strings.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace ingot::base {

inline constexpr int64_t kMaxFileBytes = int64_t{1} << 30;

// The content of `path`, a file or the pipe of a shell's <(command). NOT_FOUND: no such file. INVALID_ARGUMENT: a folder, a
// named pipe, a socket, or more than `max_bytes`. UNAVAILABLE: the file cannot be read. Errors name the path and the reason.
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes = kMaxFileBytes);

// Writes and fsyncs. The status names path and cause ("no space left on device", ...).
absl::Status WriteFileDurably(const std::string& path, const std::string& contents);
// Makes renames and creations in `dir` durable.
absl::Status SyncDir(const std::string& dir);
// Gives the folder `from` the name `to`, durably; both are in one folder. A folder of the name `to` is called `from` at
// the same moment. A file system that cannot exchange names has it moved to `aside` before: a crash between the two
// renames leaves no folder `to`.
absl::Status ReplaceFolder(const std::string& from, const std::string& to, const std::string& aside);

}  // namespace ingot::base
