// An ObjectStore stores whole objects under keys. It is the common interface to a directory or S3 bucket through which
// the trainer passes weights to engines.
//
// Keys are words of letters, digits, '.', '_', and '-', separated by '/'. A word must not begin with a dot
// (IsObjectKey). An object exists completely or not at all, even if a process or machine crashes during a write.
// After a write returns, every reader finds the object, even after a machine crash if the store itself guarantees
// this.
//
// Every implementation must guarantee:
//   1. Put and Swap replace the object atomically: a reader gets either the old or the new content.
//   2. Of several Swaps with the same tag, at most one succeeds.
//   3. Every call returns, with DEADLINE_EXCEEDED or UNAVAILABLE if the store does not answer.
//   4. Error messages name the store and the key. UNAVAILABLE may be temporary. PERMISSION_DENIED, FAILED_PRECONDITION,
//      and INVALID_ARGUMENT persist until the configuration or the store is corrected. Errors never contain
//      credentials.
//
// Thread safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ingot::weights {

struct StoredObject {
  std::string bytes;
  std::string tag;  // identifies the content; not empty
};

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  virtual absl::Status Put(const std::string& key, std::string_view bytes) = 0;

  // Returns NOT_FOUND if there is no such object, and RESOURCE_EXHAUSTED if it has more than `max_bytes`.
  virtual absl::StatusOr<StoredObject> Get(const std::string& key, int64_t max_bytes) = 0;

  // Writes the object only if its tag is still `tag`. Empty `tag` = only if there is no object. Returns the new tag, or
  // ABORTED if the object has changed. A Swap that timed out may still have succeeded.
  virtual absl::StatusOr<std::string> Swap(const std::string& key, std::string_view bytes, const std::string& tag) = 0;

  // Returns the keys that begin with `prefix`, sorted.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& prefix) = 0;

  // Returns OK even if the object does not exist.
  virtual absl::Status Delete(const std::string& key) = 0;

  // Returns a readable location without credentials.
  virtual std::string Describe() const = 0;
};

bool IsObjectKey(std::string_view key);

// Checks whether the store can be used: writes, reads, swaps, and deletes objects below `prefix`. Returns
// FAILED_PRECONDITION if a Swap with an outdated tag succeeds.
absl::Status CheckStore(ObjectStore& store, const std::string& prefix);

}  // namespace ingot::weights
