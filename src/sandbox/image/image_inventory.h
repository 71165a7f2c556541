// The images of a store (sandbox/image/image.h), and their removal. A process that uses a store's images holds the
// store until it ends, so that no image is removed under a sandbox:
//
//   ROOT/users    an empty file, locked (flock) by every process that uses an image of the store
#pragma once

#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

#include "base/status.h"
#include "sandbox/spawn.h"

namespace ingot::sandbox {

struct StoredImage {
  std::string digest;  // "sha256:<hex>"
  std::vector<std::string>
      sources;               // that it was unpacked from, in ImageStore::Resolve's words with absolute paths; sorted
  int64_t bytes = 0;         // on the disk
  std::time_t last_use = 0;  // when a sandbox or a command asked for it last
};

// In the order of their last use. Empty if the folder is not a store. UNAVAILABLE: the folder cannot be read.
absl::StatusOr<std::vector<StoredImage>> ListImages(const std::string& root);

// RemoveImages removes images and the records of their sources. FAILED_PRECONDITION: a process holds the store, and
// nothing is removed. NOT_FOUND names a missing digest; nothing is removed. Other errors name the first file that
// stays; all other images are removed.
absl::Status RemoveImages(const std::string& root, const std::vector<std::string>& digests);

// Holds the store for as long as the result lives. Invalid: there is no store, or its file cannot be opened; then
// nothing is held. Waits up to two seconds for a removal, which holds the lock only for moments.
Fd HoldImages(const std::string& root);

// Notes that the image is used now. A store of another user stays as it is.
void NoteUse(const std::string& root, const std::string& digest);

// The folder of an image in its store.
std::string ImageFolder(const std::string& root, const std::string& digest);

// Whether `text` is "sha256:<hex>".
bool IsImageDigest(const std::string& text);

}  // namespace ingot::sandbox
