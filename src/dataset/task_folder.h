// A TaskFolder reads a folder of files that a stranger made and may change meanwhile. Nothing in it leads out of it:
// neither a link on the way to a file nor a path with "..". A file is opened once, without blocking, and checked after
// that. Errors name the path below the folder. Thread safe.
//
// A task has files, folders and links. Anything else (a named pipe, a socket, a device) is an error: it would block its
// reader, or give a sandbox access to the machine.
#pragma once

#include <cstdint>
#include <string>

#include "base/open_file.h"
#include "base/status.h"

namespace ingot::dataset {

enum class Links {
  kInside,  // links must lead to a place in the task's folder, or to nothing
  kAny,     // they may lead anywhere: they are followed only inside a sandbox
};

class TaskFolder {
 public:
  // A link to the folder itself is followed. NOT_FOUND, UNAVAILABLE; INVALID_ARGUMENT: it is not a folder.
  static absl::StatusOr<TaskFolder> Open(const std::string& path);

  // The content of a file. NOT_FOUND: it does not exist. INVALID_ARGUMENT: it leads out of the folder, is not a file,
  // or is longer than `max_bytes`. UNAVAILABLE: it cannot be read.
  absl::StatusOr<std::string> Read(const std::string& name, int64_t max_bytes) const;
  // Whether a file, or anything, of this name exists. The same errors.
  absl::StatusOr<bool> HasFile(const std::string& name) const;
  absl::StatusOr<bool> Has(const std::string& name) const;
  // The path of a folder, without links.
  absl::StatusOr<std::string> PathOf(const std::string& name) const;
  // Checks everything in the folder `name`. OK if nothing has this name.
  absl::Status CheckFolder(const std::string& name, Links links) const;

 private:
  TaskFolder(std::string path, base::Fd folder) : path_(std::move(path)), folder_(std::move(folder)) {}

  // The error for `errno`, which OpenBeneath set.
  absl::Status Failure(const std::string& name) const;
  absl::Status CheckEntries(base::Fd folder, const std::string& name, Links links, int depth) const;
  absl::Status CheckEntry(int folder, const std::string& entry, const std::string& name, Links links, int depth) const;

  std::string path_;
  base::Fd folder_;
};

}  // namespace ingot::dataset
