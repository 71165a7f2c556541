// Implements Registry in a folder on one machine, for tests and for runs whose processes are all on that machine.
//
//   FOLDER/table        the whole table (proto/registry.proto), replaced by each write, read without a lock
//   FOLDER/lock         locked with flock(2) during a write
//   FOLDER/sessions/S   one per open registry, locked by its process; the kernel releases the lock when the process
//   exits
//
// A lease expires when its session's lock is released or its time has passed. The next process that notices deletes its
// entries. Watchers check every `poll`. A new revision is fsynced before it is reported, so a fencing token is never
// reused after a power failure. Lease renewals are not fsynced because leases do not survive a machine restart. A lost
// table starts over at a revision based on the current time, so fencing tokens keep increasing.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/clock.h"
#include "registry/registry.h"

namespace ingot::registry {

struct LocalOptions {
  std::string folder;                        // created if missing; its parent must exist
  std::chrono::milliseconds poll{200};       // how often watchers check
  std::chrono::milliseconds deadline{5000};  // limit for a write that waits for another process
};

// Returns UNAVAILABLE if the folder cannot be created or written.
absl::StatusOr<std::unique_ptr<Registry>> OpenLocalRegistry(const LocalOptions& options,
                                                            const base::Clock& clock = base::Clock::Real());

}  // namespace ingot::registry
