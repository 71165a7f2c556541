// Reports full disks. A role that cannot write waits until it can, and reports the folder and the space it needs.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace ingot::app {

// Minimum free space required to restart a role that failed because of a full disk.
inline constexpr int64_t kStartBytes = int64_t{16} << 20;

// Returns "the disk of /runs/a is full: 0 MiB of 512 MiB are free, and 16 MiB are needed". Empty if `needed` bytes are
// free or the system does not report the free space.
std::string DescribeFullDisk(const std::string& folder, int64_t needed = kStartBytes);

// Adds the disk's state to an error caused by a full disk. Returns any other status unchanged.
absl::Status NameFullDisk(absl::Status status, const std::string& folder, int64_t needed);

}  // namespace ingot::app
