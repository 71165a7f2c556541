// Reads a folder of untrusted files that may change while they are being read. Neither a symbolic link nor a path with
// ".." can lead out of the folder. A file is opened once, without blocking, and then checked. Errors name the path
// relative to the folder. Thread safe.
//
// A task has files, folders, and links. Anything else (a named pipe, a socket, a device) is an error, because it could
// block its reader or give a sandbox access to the machine.
#pragma once

#include <cstdint>
#include <string>

#include "base/open_file.h"
#include "base/status.h"

namespace ingot::dataset {

enum class Links {
  kInside,  // links must point into the task's folder or to a nonexistent path
  kAny,     // links may point anywhere, because they are followed only inside a sandbox
};

class TaskFolder {
 public:
  // Follows a link to the folder itself. Returns NOT_FOUND, UNAVAILABLE, or INVALID_ARGUMENT if it is not a folder.
  static absl::StatusOr<TaskFolder> Open(const std::string& path);

  // Returns the content of a file. Returns NOT_FOUND if it does not exist, INVALID_ARGUMENT if it is outside the
  // folder, is not a file, or is longer than `max_bytes`, and UNAVAILABLE if it cannot be read.
  absl::StatusOr<std::string> Read(const std::string& name, int64_t max_bytes) const;
  // HasFile returns whether a file with this name exists, and Has whether any entry does. Same errors as Read.
  absl::StatusOr<bool> HasFile(const std::string& name) const;
  absl::StatusOr<bool> Has(const std::string& name) const;
  // Returns a directory's path, with links resolved.
  absl::StatusOr<std::string> PathOf(const std::string& name) const;
  // Checks everything in the directory `name`. Returns OK if it does not exist.
  absl::Status CheckFolder(const std::string& name, Links links) const;

 private:
  TaskFolder(std::string path, base::Fd folder) : path_(std::move(path)), folder_(std::move(folder)) {}

  // Returns the error for the `errno` that OpenBeneath set.
  absl::Status Failure(const std::string& name) const;
  absl::Status CheckEntries(base::Fd folder, const std::string& name, Links links, int depth) const;
  absl::Status CheckEntry(int folder, const std::string& entry, const std::string& name, Links links, int depth) const;

  std::string path_;
  base::Fd folder_;
};

}  // namespace ingot::dataset
