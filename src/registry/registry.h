// A run's registry is a small shared table that records each process's role and address, which process leads, and which
// ones are alive. Several processes write to it, on one or more machines.
//
//   process ── Grant ──▶ Lease, kept alive by a registry thread. Its entries are deleted when the process exits
//                        or is paused for longer than the lease's time to live.
//   process ── Put, expected_revision 0 ──▶ the first writer wins, and later ones get its entry. The entry's
//                        create_revision is a FENCING TOKEN: it is unique and greater than all earlier ones.
//   process ── Put, fence ──▶ fails once the fenced entry is gone, even if the writer has not noticed.
//   process ── Watch ──▶ every later change under a prefix, even if the registry's servers fail.
//
// Implementations: a folder on one machine (local_registry.h) and etcd (grpc_etcd.h). Both guarantee:
//
// 1. Writes are totally ordered by increasing revisions. A read sees every write that was acknowledged before it.
// 2. A write that returns an error other than those below may have been applied. A Put can be repeated safely: if it
//    finds its own value under its own lease, it counts as written.
// 3. An entry with a lease exists as long as its holder's Lease::alive() is true. It may exist longer.
// 4. A watcher gets the last change to every key, in revision order. Changes to a key in quick succession, or while no
//    server can be reached, may arrive as one.
//
// Every call may return UNAVAILABLE if no server answered within the deadline in the registry's options,
// FAILED_PRECONDITION if a different cluster answers, UNAUTHENTICATED, or PERMISSION_DENIED. Each error names the
// registry's location. Thread safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace ingot::registry {

inline constexpr size_t kMaxKeyBytes = 1024;
inline constexpr size_t kMaxValueBytes = 64 << 10;

struct Entry {
  std::string key;
  std::string value;
  int64_t create_revision = 0;  // revision of the write that created the key; a fencing token; 0 = no entry
  int64_t mod_revision = 0;     // revision of the last write
  int64_t lease = 0;            // 0 = the entry exists until it is deleted
};

// A change to a key.
struct Event {
  bool deleted = false;
  Entry entry;  // for a deletion, only key and mod_revision are set
};

struct Listing {
  std::vector<Entry> entries;  // sorted by key
  int64_t revision = 0;        // the registry's revision when it was read
};

// The condition for a fenced write: the entry for `key` still has this create_revision.
struct Fence {
  std::string key;
  int64_t token = 0;
};

struct PutOptions {
  int64_t lease = 0;  // Lease::id; 0 = the entry exists until it is deleted
  // Writes only if this is the entry's mod_revision. 0 = writes only if there is no entry.
  std::optional<int64_t> expected_revision = std::nullopt;
  std::optional<Fence> fence = std::nullopt;
};

struct PutResult {
  bool written = false;  // false = expected_revision did not match
  Entry entry;           // the current entry, either the writer's or the holder's; empty key = no entry
};

// A lease that this process holds. A registry thread renews it at intervals of a third of its time to live. The
// destructor revokes the lease, which deletes its entries. If there is no answer within a second, the entries remain
// until the lease expires.
class Lease {
 public:
  virtual ~Lease() = default;
  // Returns a number greater than 0.
  virtual int64_t id() const = 0;
  // Becomes false permanently if no renewal sent within the time to live was answered. The holder must not act on its
  // entries after that. A paused process sees false as soon as it resumes.
  virtual bool alive() const = 0;
};

// An active watch. The destructor ends it and waits for an observer call in progress.
class Watcher {
 public:
  virtual ~Watcher() = default;
};

class Registry {
 public:
  // Called on the watcher's thread without locks held. Must not destroy its own watcher.
  using Observer = std::function<void(const Event&)>;

  // REQUIRES: all leases and watchers were destroyed.
  virtual ~Registry() = default;

  // Returns the registry's location for error messages: "etcd at 10.0.0.1:2379, 10.0.0.2:2379".
  virtual std::string Describe() const = 0;

  // Creates a lease. `ttl` is rounded up to whole seconds, and a server may increase it. `on_lost` is called at most
  // once, on a registry thread, if alive() becomes false before the lease is destroyed. Returns INVALID_ARGUMENT if ttl
  // is less than 1 s.
  virtual absl::StatusOr<std::unique_ptr<Lease>> Grant(std::chrono::milliseconds ttl,
                                                       std::function<void()> on_lost) = 0;

  // Writes an entry. Returns NOT_FOUND if the lease does not exist or has expired, ABORTED if the fence is stale, and
  // INVALID_ARGUMENT if the key is empty or too long or the value is too long.
  virtual absl::StatusOr<PutResult> Put(const std::string& key, const std::string& value,
                                        const PutOptions& options) = 0;

  // Returns an entry, or nullopt if there is none.
  virtual absl::StatusOr<std::optional<Entry>> Get(const std::string& key) = 0;

  // Returns the entries whose keys begin with `prefix`, which must not be empty.
  virtual absl::StatusOr<Listing> List(const std::string& prefix) = 0;

  // Deletes an entry if it exists.
  virtual absl::Status Delete(const std::string& key) = 0;

  // Calls the observer for each current entry under `prefix`, then for each change. If this returns an error, the
  // observer is never called. Later errors are logged and retried until the watcher is destroyed.
  virtual absl::StatusOr<std::unique_ptr<Watcher>> Watch(const std::string& prefix, Observer observer) = 0;
};

}  // namespace ingot::registry
