// An ObjectStore keeps whole objects under keys: the common interface of a directory and an S3 bucket, through which
// the trainer passes weights to engines.
//
// Keys are words of letters, digits, '.', '_' and '-', with '/' between them; no word begins with a dot (IsObjectKey).
// An object exists whole or not at all, even if a process or machine dies while it is written. Once a write has
// returned, every reader finds the object, also after a crash of the machine, as far as the store itself guarantees
// this.
//
// Obligations of an implementation:
//   1. Put and Swap replace the object at once: a reader gets the old content or the new one.
//   2. Of several Swaps with one tag, at most one succeeds.
//   3. Every call ends by itself, with DEADLINE_EXCEEDED or UNAVAILABLE if the store does not answer.
//   4. An error names the store and the key. UNAVAILABLE may pass; PERMISSION_DENIED, FAILED_PRECONDITION and
//      INVALID_ARGUMENT last until the configuration or the store is corrected. No error shows a credential.
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
  std::string tag;  // names the content; not empty
};

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  virtual absl::Status Put(const std::string& key, std::string_view bytes) = 0;

  // NOT_FOUND: no such object. RESOURCE_EXHAUSTED: it has more than `max_bytes`.
  virtual absl::StatusOr<StoredObject> Get(const std::string& key, int64_t max_bytes) = 0;

  // Writes the object only if its tag is still `tag`; empty = only if no object exists. Returns the new tag. ABORTED:
  // the object has changed. A Swap that timed out may still have succeeded.
  virtual absl::StatusOr<std::string> Swap(const std::string& key, std::string_view bytes, const std::string& tag) = 0;

  // The keys that begin with `prefix`, ordered.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& prefix) = 0;

  // OK also if the object does not exist.
  virtual absl::Status Delete(const std::string& key) = 0;

  // For people: the place, without credentials.
  virtual std::string Describe() const = 0;
};

bool IsObjectKey(std::string_view key);

// Whether the store can be used: writes, reads, swaps and deletes objects below `prefix`. FAILED_PRECONDITION: a Swap
// succeeds whose tag is no longer the object's.
absl::Status CheckStore(ObjectStore& store, const std::string& prefix);

}  // namespace ingot::weights
