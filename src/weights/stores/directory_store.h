// An ObjectStore in a directory, which may be shared by machines.
//
// Objects are written under a temporary name, fsynced and renamed; the directories are fsynced. Swap holds a lock
// (flock) on the file `.lock`: a shared file system must support such locks between its machines, as NFS 4, Lustre
// (mounted with flock) and CephFS do. A tag is the Checksum64 of the content.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "weights/stores/object_store.h"

namespace ingot::weights {

// Makes the directory if it is missing. UNAVAILABLE or PERMISSION_DENIED name it and the system's reason. A Swap waits
// up to `lock_timeout` for another process's Swap; UNAVAILABLE then names the lock.
absl::StatusOr<std::unique_ptr<ObjectStore>> OpenDirectoryStore(
    const std::string& path, std::chrono::milliseconds lock_timeout = std::chrono::seconds(10));

}  // namespace ingot::weights
