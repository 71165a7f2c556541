// Reads and writes whole files as strings.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ingot::base {

inline constexpr int64_t kMaxFileBytes = int64_t{1} << 30;

// Returns the contents of `path`, which is a file or a pipe from the shell's <(command). Returns NOT_FOUND if there is
// no such file, INVALID_ARGUMENT for a folder, a named pipe, a socket, or a file over `max_bytes`, and UNAVAILABLE if
// the file cannot be read. Errors include the path and the reason.
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes = kMaxFileBytes);

// Writes and fsyncs. Errors include the path and the cause ("no space left on device", ...).
absl::Status WriteFileDurably(const std::string& path, std::string_view contents);
// Writes all of `bytes` to an open file. Returns the same errors as WriteFileDurably. They include `path`.
absl::Status WriteAll(int fd, std::string_view bytes, const std::string& path);

struct Replacement {
  mode_t mode = 0644;
  bool durable = true;  // false = a machine crash may leave an empty file, but a process crash does not
};
// Replaces the contents of `path` atomically. After a crash, the file is either the old one or the complete new one. If
// OK is returned, the new file is durable. On error, the old file is intact. A crash may leave a temporary file,
// PATH.RANDOM.new. If several writers run concurrently, on any machine, the last one wins.
absl::Status ReplaceFile(const std::string& path, std::string_view contents, const Replacement& how = {});
// Same as ReplaceFile, but `write` supplies the contents by writing them to `fd`, an open file named `draft`.
using WriteDraft = std::function<absl::Status(int fd, const std::string& draft)>;
absl::Status ReplaceFileBy(const std::string& path, const WriteDraft& write, const Replacement& how = {});

// Makes renames and file creations in `dir` durable.
absl::Status SyncDir(const std::string& dir);
// Durably renames the folder `from` to `to`, which must have the same parent. If `to` exists, the two names are swapped
// atomically. If the file system cannot do that, `to` is first renamed to `aside`. In that case, a crash between the
// two renames leaves no folder named `to`.
absl::Status ReplaceFolder(const std::string& from, const std::string& to, const std::string& aside);

}  // namespace ingot::base
