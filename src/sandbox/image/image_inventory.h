// Lists and removes the images in a store (sandbox/image/image.h). A process that uses images holds the store until it
// exits so that no image is removed while a sandbox uses it:
//
//   ROOT/users    an empty file, locked (flock) by every process that uses an image in the store
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
      sources;  // sources from which it was unpacked, sorted; written as in ImageStore::Resolve, with absolute paths
  int64_t bytes = 0;         // disk usage
  std::time_t last_use = 0;  // last time when a sandbox or a command requested it
};

// Returns the images, ordered by last use. Returns an empty list if the folder is not a store. Returns UNAVAILABLE if
// the folder cannot be read.
absl::StatusOr<std::vector<StoredImage>> ListImages(const std::string& root);

// Removes images and their source records. Returns FAILED_PRECONDITION if a process holds the store, or NOT_FOUND if a
// digest does not exist. In both cases, nothing is removed. Other errors name the first file that could not be removed;
// all other images are removed.
absl::Status RemoveImages(const std::string& root, const std::vector<std::string>& digests);

// Holds the store until the result is destroyed. The result is invalid if there is no store or its file cannot be
// opened. Waits up to two seconds for a removal in progress, which holds the lock only briefly.
Fd HoldImages(const std::string& root);

// Records that the image is being used now. Does nothing if the store belongs to another user.
void NoteUse(const std::string& root, const std::string& digest);

// Returns an image's folder in the store.
std::string ImageFolder(const std::string& root, const std::string& digest);

// Returns whether `text` has the form "sha256:<hex>".
bool IsImageDigest(const std::string& text);

}  // namespace ingot::sandbox
