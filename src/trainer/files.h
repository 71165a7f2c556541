// Files of the checkpoint writer: durable writes, whole reads, digests.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace ingot::trainer {

// Writes and fsyncs. The status names path and cause ("no space left on device", ...).
absl::Status WriteFileDurably(const std::string& path, const std::string& contents);
absl::StatusOr<std::string> ReadSmallFile(const std::string& path);
// Makes renames and creations in `dir` durable.
absl::Status SyncDir(const std::string& dir);

struct FileDigest {
  uint64_t bytes = 0;
  uint64_t checksum = 0;
};
absl::StatusOr<FileDigest> DigestFile(const std::string& path);

}  // namespace ingot::trainer
