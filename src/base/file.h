// Whole files as strings.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ingot::base {

inline constexpr int64_t kMaxFileBytes = int64_t{1} << 30;

// The content of `path`, a file or the pipe of a shell's <(command). NOT_FOUND: no such file. INVALID_ARGUMENT: a folder, a
// named pipe, a socket, or more than `max_bytes`. UNAVAILABLE: the file cannot be read. Errors name the path and the reason.
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes = kMaxFileBytes);

// Writes and fsyncs. The status names path and cause ("no space left on device", ...).
absl::Status WriteFileDurably(const std::string& path, std::string_view contents);
// Writes all of `bytes` to an open file. `path`: for errors, which are the same as WriteFileDurably's.
absl::Status WriteAll(int fd, std::string_view bytes, const std::string& path);

struct Replacement {
  mode_t mode = 0644;
  bool durable = true;  // false: a crash of the machine may leave an empty file; one of the process may not
};
// Replaces the contents of `path` atomically: a crash leaves the old file or the whole new file, and after OK the new
// file is durable. A failure leaves the old file. Only a crash leaves the draft, PATH.RANDOM.new. Of several writers at
// a time, on whatever machine, the last wins.
absl::Status ReplaceFile(const std::string& path, std::string_view contents, const Replacement& how = {});
// The same, with what `write` puts into the file `fd` of the name `draft`.
using WriteDraft = std::function<absl::Status(int fd, const std::string& draft)>;
absl::Status ReplaceFileBy(const std::string& path, const WriteDraft& write, const Replacement& how = {});

// Makes renames and creations in `dir` durable.
absl::Status SyncDir(const std::string& dir);
// Renames the folder `from` to `to`, durably; both are in one folder. If `to` exists, the two swap names at the same
// moment. On a file system that cannot exchange names, `to` moves to `aside` first: a crash between the two renames
// leaves no folder `to`.
absl::Status ReplaceFolder(const std::string& from, const std::string& to, const std::string& aside);

}  // namespace ingot::base
