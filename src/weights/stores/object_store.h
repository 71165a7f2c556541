// An ObjectStore keeps whole objects under keys: the common part of a directory and of a bucket of S3, for weights that
// trainer and engines hand over through it.
//
// Keys are words of letters, digits, '.', '_' and '-', with '/' between them; no word begins with a dot (IsObjectKey).
// An object is there whole or not at all, whatever dies while it is written. Once a write has returned, every reader
// finds it, also after a crash of the machine, as far as the store itself keeps that promise.
//
// Obligations of an implementation:
//   1. Put and Swap replace the object at once: a reader gets the old content or the new one.
//   2. Of several Swaps with one tag, at most one succeeds.
//   3. Every call ends by itself, with DEADLINE_EXCEEDED or UNAVAILABLE where the store does not answer.
//   4. An error names the store and the key. UNAVAILABLE may pass; PERMISSION_DENIED, FAILED_PRECONDITION and
//      INVALID_ARGUMENT stay until the configuration or the store is corrected. No error shows a credential.
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

  // Writes the object only if its tag is still `tag`, empty = only if there is none. Returns the new tag. ABORTED: the
  // object is another one by now. A Swap that is given up on may have been done all the same.
  virtual absl::StatusOr<std::string> Swap(const std::string& key, std::string_view bytes, const std::string& tag) = 0;

  // The keys that begin with `prefix`, ordered.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& prefix) = 0;

  // OK also if there is no such object.
  virtual absl::Status Delete(const std::string& key) = 0;

  // For people: the place, without credentials.
  virtual std::string Describe() const = 0;
};

bool IsObjectKey(std::string_view key);

// Whether the store can be used: writes, reads and deletes an object below `prefix`.
absl::Status CheckStore(ObjectStore& store, const std::string& prefix);

}  // namespace ingot::weights
