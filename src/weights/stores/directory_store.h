// Implements ObjectStore in a directory, which machines may share.
//
// Objects are written under a temporary name, fsynced, and renamed. The directories are fsynced. Swap holds a lock
// (flock) on the `.lock` file. A shared file system must support such locks between machines, as NFS 4, Lustre (mounted
// with flock), and CephFS do. A tag is the Checksum64 of the content.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "weights/stores/object_store.h"

namespace ingot::weights {

// Creates the directory if it is missing. On failure, returns UNAVAILABLE or PERMISSION_DENIED, with the directory and
// the system's reason. A Swap waits up to `lock_timeout` for another process's Swap, and then returns UNAVAILABLE with
// the lock's path.
absl::StatusOr<std::unique_ptr<ObjectStore>> OpenDirectoryStore(
    const std::string& path, std::chrono::milliseconds lock_timeout = std::chrono::seconds(10));

}  // namespace ingot::weights
