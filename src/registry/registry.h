// The registry of a run: a small shared table of keys that says which process has which role, where it listens, which
// one leads, and which are alive. Several processes write it, on one machine or on many.
//
//   process ── Grant ──▶ Lease, kept alive by a thread of the registry. Entries under a lease go when its process dies
//                        or was paused for longer than the lease's time to live.
//   process ── Put, expected_revision 0 ──▶ the first writer wins and later ones get its entry. The entry's
//                        create_revision is a FENCING TOKEN: it is unique, and greater than all earlier ones.
//   process ── Put, fence ──▶ fails once the fenced entry is gone, even if the writer does not know that.
//   process ── Watch ──▶ every later change of a prefix, even if the registry's servers die.
//
// Implementations: a folder of one machine (local_registry.h) and etcd (grpc_etcd.h). Promises of both:
//
//  1. Writes have one order, shown by revisions that only grow. A read sees every write that was answered before it.
//  2. A write that returns an error other than the ones below may have happened. Repeating the Put is safe: a Put that
//     finds its own value under its own lease counts as written.
//  3. An entry under a lease stays for as long as its holder's Lease::alive() is true. It may stay longer.
//  4. A watcher gets the last change of every key, in order of revisions. Changes of one key in quick succession, or
//     from a time when no server could be reached, may arrive as one.
//
// Errors of every call: UNAVAILABLE when no server answered within the deadline of the registry's options;
// FAILED_PRECONDITION when another cluster answers than before; UNAUTHENTICATED or PERMISSION_DENIED. Each names the
// registry's place. Thread safe.
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
  int64_t create_revision = 0;  // of the write that made the key; a fencing token. 0 = there is no entry
  int64_t mod_revision = 0;     // of the last write
  int64_t lease = 0;            // 0 = the entry stays until it is deleted
};

// One change of a key.
struct Event {
  bool deleted = false;
  Entry entry;  // of a deletion: the key, and its revision in mod_revision
};

struct Listing {
  std::vector<Entry> entries;  // by key
  int64_t revision = 0;        // the registry's, when it was read
};

// The condition of a fenced write: the entry of `key` still has this create_revision.
struct Fence {
  std::string key;
  int64_t token = 0;
};

struct PutOptions {
  int64_t lease = 0;  // Lease::id. 0 = the entry stays until it is deleted
  // Write only over this mod_revision; 0 = only where there is no entry.
  std::optional<int64_t> expected_revision = std::nullopt;
  std::optional<Fence> fence = std::nullopt;
};

struct PutResult {
  bool written = false;  // false: expected_revision did not match
  Entry entry;           // the present entry: the writer's own, or the holder's (empty key: none)
};

// A lease that this process holds. The registry's thread renews it every third of its time to live. The destructor
// revokes it, which deletes its entries; without an answer within a second they stay until the lease expires.
class Lease {
 public:
  virtual ~Lease() = default;
  // Greater than 0.
  virtual int64_t id() const = 0;
  // Turns false for good when no renewal sent within the time to live has been answered. After that the holder must not
  // act on its entries. A paused process sees false as soon as it resumes.
  virtual bool alive() const = 0;
};

// A running watch. The destructor ends it, and waits for a running call of the observer.
class Watcher {
 public:
  virtual ~Watcher() = default;
};

class Registry {
 public:
  // Called by one thread of the watcher, without locks. Must not destroy its own watcher.
  using Observer = std::function<void(const Event&)>;

  // REQUIRES: its leases and watchers are gone.
  virtual ~Registry() = default;

  // The place, for errors: "etcd at 10.0.0.1:2379, 10.0.0.2:2379".
  virtual std::string Describe() const = 0;

  // Creates a lease. `ttl` is rounded up to whole seconds, and a server may raise it. `on_lost` is called at most once,
  // on a thread of the registry, when alive() turns false before the lease is destroyed. INVALID_ARGUMENT: ttl is under
  // 1 s.
  virtual absl::StatusOr<std::unique_ptr<Lease>> Grant(std::chrono::milliseconds ttl,
                                                       std::function<void()> on_lost) = 0;

  // Writes an entry. NOT_FOUND: the lease does not exist or has expired. ABORTED: the fence is stale. INVALID_ARGUMENT:
  // the key is empty or too long, or the value is too long.
  virtual absl::StatusOr<PutResult> Put(const std::string& key, const std::string& value,
                                        const PutOptions& options) = 0;

  // An entry; nullopt = there is none.
  virtual absl::StatusOr<std::optional<Entry>> Get(const std::string& key) = 0;

  // The entries whose keys begin with `prefix`, which is not empty.
  virtual absl::StatusOr<Listing> List(const std::string& prefix) = 0;

  // Deletes an entry, if there is one.
  virtual absl::Status Delete(const std::string& key) = 0;

  // Calls the observer for each present entry below `prefix`, then for each change. If this returns an error, the
  // observer is never called. Later errors are logged and retried until the watcher is destroyed.
  virtual absl::StatusOr<std::unique_ptr<Watcher>> Watch(const std::string& prefix, Observer observer) = 0;
};

}  // namespace ingot::registry
