// Parses image names (ImageStore::Resolve) and restricts which names untrusted users may use.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace ingot::sandbox {

struct ImageSource {
  std::string kind;    // "oci-archive", "docker-archive", "oci", "dockerfile", "folder", or "docker"
  std::string path;    // absolute path; "//NAME" for a registry image
  bool moves = false;  // the registry may later return a different image for this name
  std::string Name() const { return absl::StrCat(kind, ":", path); }
};

// Parses a name from the machine's owner. Returns INVALID_ARGUMENT if the prefix is unknown, and NOT_FOUND if the file
// does not exist.
absl::StatusOr<ImageSource> ParseImageSource(const std::string& text);

// Parses a name from an untrusted user, such as in task data or a client request. Registry names are always allowed. A
// path must be inside one of `folders` after links are resolved. Otherwise returns PERMISSION_DENIED, with the same
// message whether or not the path exists elsewhere, so the error reveals nothing about the machine's files. Returns
// INVALID_ARGUMENT for a layout that contains links.
absl::StatusOr<ImageSource> ParseStrangersSource(const std::string& text, const std::vector<std::string>& folders);

// Returns a key that identifies the image's content without reading it: the name of a registry image, or otherwise the
// names, sizes, and times of the file or of all files in the folder.
std::string Fingerprint(const ImageSource& source);

// Returns the size of a file, or of all files in a folder.
int64_t SizeOf(const std::string& path);

}  // namespace ingot::sandbox
