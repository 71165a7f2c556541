// The texts that name images (ImageStore::Resolve), and who may write which.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace ingot::sandbox {

struct ImageSource {
  std::string kind;    // "oci-archive", "docker-archive", "oci", "dockerfile", "folder" or "docker"
  std::string path;    // absolute; of a registry's image "//NAME"
  bool moves = false;  // the registry may name another image by it later
  std::string Name() const { return absl::StrCat(kind, ":", path); }
};

// For the machine's owner. INVALID_ARGUMENT: no such kind; NOT_FOUND: no such file.
absl::StatusOr<ImageSource> ParseImageSource(const std::string& text);

// For anyone else: a task's data, a service's client. Registry names are always allowed. A path must lie in one of
// `folders` after following links. Otherwise PERMISSION_DENIED, with the same text for a path elsewhere and a missing
// path, so that it reveals nothing about the machine's files. INVALID_ARGUMENT: a layout with links.
absl::StatusOr<ImageSource> ParseStrangersSource(const std::string& text, const std::vector<std::string>& folders);

// A key of the image's bytes as far as they are known without reading them: the name at a registry; of others names,
// sizes and times of the file, or of all files of the folder.
std::string Fingerprint(const ImageSource& source);

// The bytes of a file, or of all files of a folder.
int64_t SizeOf(const std::string& path);

}  // namespace ingot::sandbox
