// A registry in a folder of one machine: for runs whose processes are all there, and for tests.
//
//   FOLDER/table        the whole table (proto/registry.proto), replaced by each write; read without a lock
//   FOLDER/lock         held by flock(2) during a write
//   FOLDER/sessions/S   one per open registry, kept locked by its process. The kernel drops the lock when the process dies.
//
// A lease is over when its session's lock is free, or when its time has come by the clock. Whoever looks next deletes its
// entries. A watcher looks every `poll`. A new revision is fsynced before it is told, so that no fencing token comes twice
// after a power cut. A renewal of a lease is not: leases outlive no restart of the machine. A table that was lost begins at a
// revision taken from the time of day, so that fencing tokens go on growing.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/clock.h"
#include "registry/registry.h"

namespace ingot::registry {

struct LocalOptions {
  std::string folder;                        // made if it is not there; its parent must be
  std::chrono::milliseconds poll{200};       // of watchers
  std::chrono::milliseconds deadline{5000};  // of a write that waits for another process
};

// UNAVAILABLE: the folder cannot be made or written.
absl::StatusOr<std::unique_ptr<Registry>> OpenLocalRegistry(const LocalOptions& options,
                                                            const base::Clock& clock = base::Clock::Real());

}  // namespace ingot::registry
