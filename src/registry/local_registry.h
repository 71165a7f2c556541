// A registry in a folder of one machine, for runs whose processes are all on it, and for tests.
//
//   FOLDER/table        the whole table (proto/registry.proto), replaced by each write; read without a lock
//   FOLDER/lock         held by flock(2) during a write
//   FOLDER/sessions/S   one per open registry, locked by its process. The kernel drops the lock when the process dies.
//
// A lease expires when its session's lock is free, or when its time has passed by the clock. The next process that
// looks deletes its entries. A watcher looks every `poll`. A new revision is fsynced before it is reported, so that a
// fencing token never repeats after a power cut. A lease renewal is not fsynced: leases do not outlive a restart of the
// machine. A lost table starts over at a revision taken from the time of day, so that fencing tokens keep growing.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/clock.h"
#include "registry/registry.h"

namespace ingot::registry {

struct LocalOptions {
  std::string folder;                        // created if missing; its parent must exist
  std::chrono::milliseconds poll{200};       // of watchers
  std::chrono::milliseconds deadline{5000};  // of a write that waits for another process
};

// UNAVAILABLE: the folder cannot be created or written.
absl::StatusOr<std::unique_ptr<Registry>> OpenLocalRegistry(const LocalOptions& options,
                                                            const base::Clock& clock = base::Clock::Real());

}  // namespace ingot::registry
