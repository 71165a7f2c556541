// Full disks. A role that cannot write waits until it can, and reports which folder and how much space it needs.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace ingot::app {

// The least free space with which a role is started again after it failed on a full disk.
inline constexpr int64_t kStartBytes = int64_t{16} << 20;

// "the disk of /runs/a is full: 0 MiB of 512 MiB are free, and 16 MiB are needed". Empty = `needed` bytes are free
// there, or the system does not say.
std::string DescribeFullDisk(const std::string& folder, int64_t needed = kStartBytes);

// Adds the disk's state to an error that a full disk caused; any other status stays as it is.
absl::Status NameFullDisk(absl::Status status, const std::string& folder, int64_t needed);

}  // namespace ingot::app
