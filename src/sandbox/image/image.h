// Stores images as folders. An ImageStore unpacks each image once, into a folder named after its digest. Sandboxes use
// the folder as their root (SandboxOptions::image). It runs skopeo and umoci for archives, and buildah for folders with
// a Dockerfile. None of these tools require a daemon.
//
//   ROOT/sha256-<hex>/rootfs/       the files, all owned by one user
//   ROOT/sha256-<hex>/image.json    environment and working directory for its commands
//   ROOT/sources/<hex>              a source that was unpacked: the image's digest, its name, the registry's digest
//   ROOT/users                      locked while images are in use (sandbox/image/image_inventory.h)
//   ROOT/unpack-<random>/           a scratch folder (sandbox/image/image_tools.h). When a store object unpacks its
//                                   first image, it removes the scratch folders of dead processes
//
// A registry's digest for a name is the digest of its manifest, or of its manifest list for several platforms. An
// image's digest is the digest of the manifest in the unpacked OCI layout. The two differ even for the same image.
//
// Images are untrusted. The tools keep all members below rootfs/, regardless of links and names, and verify digests.
// sandbox/image/image_limits.h limits the disk space that an image may use. Dockerfile steps run in a sandbox
// (sandbox/image/build_sandbox.h). Files lose their setuid and setgid bits and their capabilities, which would be
// effective outside sandboxes.
//
// Threads and processes may share a store because an unpacked image is moved into place with a rename. Thread safe.
// Different sources are unpacked in parallel. Threads that request the same source wait for one of them to unpack it,
// and all of them get the error if it fails.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "sandbox/image/image_limits.h"
#include "sandbox/image/image_source.h"
#include "sandbox/process.h"
#include "sandbox/spawn.h"

namespace ingot::sandbox {

struct Image {
  std::string digest;  // "sha256:<hex>"; empty = the folder was unpacked elsewhere
  std::string rootfs;  // absolute
  std::map<std::string, std::string> env;
  std::string working_dir = "/";
};

// Returns the host path of `path` in the root folder. Links are resolved as they would be in a sandbox and cannot lead
// out of the folder. Components that do not exist are kept unchanged.
std::string PlaceIn(const std::string& rootfs, const std::string& path);

class ImageTools;

struct ImageStoreOptions {
  ImageLimits limits = {};
  // Hosts that Dockerfile builds may reach, in EgressList's format.
  std::vector<std::string> build_hosts = {};
  // Folders with images that untrusted users may use (ParseStrangersSource).
  std::vector<std::string> folders = {};
};

class ImageStore {
 public:
  // `clock` measures the hour between registry queries.
  explicit ImageStore(std::string root, ImageStoreOptions options = {}, const base::Clock& clock = base::Clock::Real())
      : root_(std::move(root)), options_(std::move(options)), clock_(clock) {}

  // Returns the image for `source`, which is one of
  //   oci-archive:FILE, docker-archive:FILE    an archive from `podman save` or `docker save`
  //   oci:FOLDER                               an OCI layout
  //   dockerfile:FOLDER                        a folder with a Dockerfile
  //   folder:FOLDER                            root files that are already unpacked
  //   sha256:HEX                               an image in this store
  //   docker://NAME                            an image in a registry
  // Archives and folders are read again only if their size, times, or files have changed. Before using a copy of a
  // registry image, the store queries the registry for the name's digest and pulls the image again if it has changed.
  // The response, or the lack of one, is cached in this object for an hour. If there is no response, the store logs a
  // warning and uses the last pulled copy. It never queries for names that end with "@sha256:" and a digest.
  //
  // Errors include the failed tool's last output line.
  // - INVALID_ARGUMENT: the source has an unknown form or is not an image.
  // - NOT_FOUND: the file does not exist, or a tool is not installed.
  // - RESOURCE_EXHAUSTED: a limit is exceeded, or the disk is full.
  // - FAILED_PRECONDITION: this machine or user cannot build Dockerfiles.
  // - CANCELLED: Stop was called.
  absl::StatusOr<Image> Resolve(const std::string& source);
  // Same as Resolve, but for sources from untrusted users, such as in task data or client requests. Returns
  // PERMISSION_DENIED if it names a path outside ImageStoreOptions::folders or a path that does not exist.
  absl::StatusOr<Image> ResolveStrangers(const std::string& source);

  // Ends all running tools and prevents new ones. Their callers get CANCELLED. Images that need no tool still resolve.
  void Stop() { cancel_.Cancel(); }

  const std::string& root() const { return root_; }

 private:
  struct Source : ImageSource {
    std::string record;  // file in sources/
  };
  // Content of a Source's file. Older files have only the first line.
  struct Record {
    std::string digest;           // empty = not unpacked yet
    std::string registry_digest;  // empty = pinned, or not from a registry
  };

  absl::StatusOr<Image> Held(const std::string& digest);
  // `text` is the original source string, for errors.
  absl::StatusOr<Image> ResolveSource(const std::string& text, const ImageSource& named);
  static Record ReadRecord(const Source& source);
  static absl::Status WriteRecord(const Source& source, const Record& record);
  absl::StatusOr<Image> Load(const std::string& digest) const;
  // Returns the image if no tool is needed.
  std::optional<Image> Find(const Source& source);
  // REQUIRES for Fetch and Compare: the caller has the source's turn.
  absl::StatusOr<Image> Fetch(const Source& source);
  // Queries the source's registry. Returns the last pulled copy if it can be used. Returns nullopt if the image must be
  // pulled; `record` then has the registry's new digest.
  absl::StatusOr<std::optional<Image>> Compare(const Source& source, const absl::StatusOr<ImageTools>& tools,
                                               Record& record);
  absl::StatusOr<std::string> Unpack(const std::string& archive, const ImageTools& tools) const;
  // Converts an OCI layout to a layout with gzip-compressed layers. Returns the new layout.
  static absl::StatusOr<std::string> WithGzipLayers(const std::string& layout, const ImageTools& tools);

  struct Turn {
    bool has_ended = false;
    absl::Status end;
  };
  // Waits for this thread's turn to fetch a source, identified by its record. Only one thread has the turn at a time.
  // Returns the error of the turn that it waited for, or CANCELLED if Stop was called.
  absl::Status TakeTurn(const Source& source);
  void EndTurn(const Source& source, const absl::Status& end);
  void NoteAnswer(const Source& source);
  // Prevents the store's images from being removed until this object is destroyed (sandbox/image/image_inventory.h).
  void Hold();

  const std::string root_;
  const ImageStoreOptions options_;
  const base::Clock& clock_;
  Cancellation cancel_;
  base::Mutex mu_;  // held only briefly; no tool runs while it is held
  base::CondVar changed_;
  std::map<std::string, std::shared_ptr<Turn>> turns_ ABSL_GUARDED_BY(mu_);  // by the source's record
  // Time of the last registry query, by the source's path. Only for names with a local copy.
  std::map<std::string, std::chrono::nanoseconds> asked_ ABSL_GUARDED_BY(mu_);
  bool swept_ ABSL_GUARDED_BY(mu_) = false;
  Fd hold_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::sandbox
