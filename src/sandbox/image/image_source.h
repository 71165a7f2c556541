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

// Of the machine's owner. INVALID_ARGUMENT: no such kind; NOT_FOUND: no such file.
absl::StatusOr<ImageSource> ParseImageSource(const std::string& text);

// Of anybody else: the data of a task, a client of a service. Names of registries are free. A path must lie in one of `folders`,
// links followed, or PERMISSION_DENIED says so, with one text for what is elsewhere and for what is not there: it tells nothing of
// the machine's files. A layout with links is INVALID_ARGUMENT.
absl::StatusOr<ImageSource> ParseStrangersSource(const std::string& text, const std::vector<std::string>& folders);

// A key of the image's bytes as far as they are known without reading them: the name at a registry; of others names, sizes and
// times of the file, or of all files of the folder.
std::string Fingerprint(const ImageSource& source);

// The bytes of a file, or of all files of a folder.
int64_t SizeOf(const std::string& path);

}  // namespace ingot::sandbox
