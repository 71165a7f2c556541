// Files of the checkpoint writer: whole reads and digests.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace ingot::trainer {

absl::StatusOr<std::string> ReadSmallFile(const std::string& path);

struct FileDigest {
  uint64_t bytes = 0;
  uint64_t checksum = 0;
};
absl::StatusOr<FileDigest> DigestFile(const std::string& path);

}  // namespace ingot::trainer
