// Images as folders. An ImageStore unpacks an image once, under its digest, and rooms take the folder as their root
// (RoomOptions::image). It runs skopeo and umoci for archives, and buildah for folders with a Dockerfile; none needs a daemon.
//
//   ROOT/sha256-<hex>/rootfs/       the files, all of one user
//   ROOT/sha256-<hex>/image.json    environment and working folder of its commands
//   ROOT/sources/<hex>              the digest of a source that was unpacked before
//
// An image is a stranger's: the tools keep its members below rootfs/, whatever links and names it has, and check digests.
// Files lose the bits setuid and setgid and their capabilities, which would count outside of rooms.
//
// Threads and processes may share a store: an unpacked image is put in its place by a rename. Thread safe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "sandbox/disk_watch.h"

namespace ingot::sandbox {

struct Image {
  std::string digest;  // "sha256:<hex>"; empty = a folder that was unpacked elsewhere
  std::string rootfs;  // absolute
  std::map<std::string, std::string> env;
  std::string working_dir = "/";
};

// The place of `path` in the root folder, without links: they are followed as in a room, and lead nowhere else. Parts that are
// not there stay as they are.
std::string PlaceIn(const std::string& rootfs, const std::string& path);

class ImageStore {
 public:
  // `limits`: of one image while it is unpacked or built, with the archive's copy.
  explicit ImageStore(std::string root, const DiskLimits& limits = {.bytes = int64_t{64} << 30, .files = 4'000'000})
      : root_(std::move(root)), limits_(limits) {}

  // `source` is one of
  //   oci-archive:FILE, docker-archive:FILE    an archive, as `podman save` and `docker save` write it
  //   oci:FOLDER                               an OCI layout
  //   dockerfile:FOLDER                        a folder with a Dockerfile
  //   folder:FOLDER                            root files that are there already
  //   sha256:HEX                               an image of this store
  //   docker://NAME                            a registry's
  // Archives and folders are looked at again only if their size, time or files changed. INVALID_ARGUMENT: another word, or not
  // an image; NOT_FOUND: no such file, or a tool is not installed; RESOURCE_EXHAUSTED: larger than the limits. The message has
  // the last line of the tool that failed.
  absl::StatusOr<Image> Resolve(const std::string& source);

  const std::string& root() const { return root_; }

 private:
  absl::StatusOr<Image> Load(const std::string& digest) const;
  absl::Status RunTool(const std::vector<std::string>& argv, const std::string& scratch) const;
  absl::StatusOr<std::string> Unpack(const std::string& source, const std::string& scratch);
  absl::StatusOr<std::string> Build(const std::string& folder, const std::string& scratch);

  const std::string root_;
  const DiskLimits limits_;
  base::Mutex mu_;  // one image is unpacked at a time
};

}  // namespace ingot::sandbox
