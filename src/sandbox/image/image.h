// Images as folders. An ImageStore unpacks an image once, under its digest, and sandboxes take the folder as their root
// (SandboxOptions::image). It runs skopeo and umoci for archives, and buildah for folders with a Dockerfile; none needs
// a daemon.
//
//   ROOT/sha256-<hex>/rootfs/       the files, all of one user
//   ROOT/sha256-<hex>/image.json    environment and working folder of its commands
//   ROOT/sources/<hex>              a source unpacked before: its image's digest, its name, its registry's digest
//   ROOT/users                      locked while images are in use (sandbox/image/image_inventory.h)
//   ROOT/unpack-<random>/           a scratch folder (sandbox/image/image_tools.h); a store's first unpacking removes
//                                   scratch folders of dead processes
//
// A registry's digest of a name is the digest of its manifest, or of its list of manifests for several platforms. An
// image's digest is the digest of the manifest in the unpacked layout, in OCI's form. They differ for the same image.
//
// An image is a stranger's: the tools keep its members below rootfs/, whatever links and names it has, and check
// digests. sandbox/image/image_limits.h limits the disk it may take. The steps of a Dockerfile run in a sandbox
// (sandbox/image/build_sandbox.h). Files lose their setuid and setgid bits and their capabilities, which would count
// outside of sandboxes.
//
// Threads and processes may share a store: a rename puts an unpacked image in its place. Thread safe: different sources
// are unpacked in parallel, and threads with the same source wait for one unpacking. If it fails, all of them get its
// error.
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
  std::string digest;  // "sha256:<hex>"; empty = a folder that was unpacked elsewhere
  std::string rootfs;  // absolute
  std::map<std::string, std::string> env;
  std::string working_dir = "/";
};

// The place of `path` in the root folder, without links: they are followed as in a sandbox, and lead nowhere else.
// Parts that are not there stay as they are.
std::string PlaceIn(const std::string& rootfs, const std::string& path);

class ImageTools;

struct ImageStoreOptions {
  ImageLimits limits = {};
  // Hosts that builds of Dockerfiles may reach, as EgressList has them.
  std::vector<std::string> build_hosts = {};
  // Where images lie that strangers may name (ParseStrangersSource).
  std::vector<std::string> folders = {};
};

class ImageStore {
 public:
  // `clock`: of the hours between questions to registries.
  explicit ImageStore(std::string root, ImageStoreOptions options = {}, const base::Clock& clock = base::Clock::Real())
      : root_(std::move(root)), options_(std::move(options)), clock_(clock) {}

  // `source` is one of
  //   oci-archive:FILE, docker-archive:FILE    an archive, as `podman save` and `docker save` write it
  //   oci:FOLDER                               an OCI layout
  //   dockerfile:FOLDER                        a folder with a Dockerfile
  //   folder:FOLDER                            root files that are there already
  //   sha256:HEX                               an image of this store
  //   docker://NAME                            a registry's
  // Archives and folders are read again only if their size, time or files changed. Before a registry's copy is used,
  // the registry is asked for the name's digest; if it changed, the image is pulled again. This object keeps the
  // answer, or its absence, for an hour. Without an answer it uses the copy pulled last, with a warning. It never asks
  // for a name that ends with "@sha256:" and a digest.
  //
  // INVALID_ARGUMENT: another word, or not an image; NOT_FOUND: no such file, or a tool is not installed;
  // RESOURCE_EXHAUSTED: over the limits, or the disk is full; FAILED_PRECONDITION: this machine or user cannot build
  // Dockerfiles; CANCELLED: see Stop. The message has the last line of the tool that failed.
  absl::StatusOr<Image> Resolve(const std::string& source);
  // The same for a text from somebody else: a task's data, a client's request. PERMISSION_DENIED: it names a path
  // outside of ImageStoreOptions::folders, or nothing.
  absl::StatusOr<Image> ResolveStrangers(const std::string& source);

  // Ends the running tools, and from now on every new one: their callers get CANCELLED. An image that needs no tool
  // resolves as before.
  void Stop() { cancel_.Cancel(); }

  const std::string& root() const { return root_; }

 private:
  struct Source : ImageSource {
    std::string record;  // the file in sources/
  };
  // The content of a Source's file. Older files have only the first line.
  struct Record {
    std::string digest;           // empty = it was never unpacked
    std::string registry_digest;  // empty = of no registry, or pinned
  };

  absl::StatusOr<Image> Held(const std::string& digest);
  // `text`: as it was written, for errors.
  absl::StatusOr<Image> ResolveSource(const std::string& text, const ImageSource& named);
  static Record ReadRecord(const Source& source);
  static absl::Status WriteRecord(const Source& source, const Record& record, const ImageTools& tools);
  absl::StatusOr<Image> Load(const std::string& digest) const;
  // The image that needs no tool.
  std::optional<Image> Find(const Source& source);
  // REQUIRES of both: the source's turn.
  absl::StatusOr<Image> Fetch(const Source& source);
  // Asks the source's registry. Returns the copy pulled last if it is to be used; nullopt: `record` has the registry's
  // new digest, which is to be pulled.
  absl::StatusOr<std::optional<Image>> Compare(const Source& source, const absl::StatusOr<ImageTools>& tools,
                                               Record& record);
  absl::StatusOr<std::string> Unpack(const std::string& archive, const ImageTools& tools) const;
  // The layout of the image of an OCI layout, with layers compressed by gzip.
  static absl::StatusOr<std::string> WithGzipLayers(const std::string& layout, const ImageTools& tools);

  struct Turn {
    bool has_ended = false;
    absl::Status end;
  };
  // At most one thread has a source's turn, by its record. Returns the error of the turn it waited for. CANCELLED: Stop
  // was called.
  absl::Status TakeTurn(const Source& source);
  void EndTurn(const Source& source, const absl::Status& end);
  void NoteAnswer(const Source& source);
  // Keeps the store's images for as long as this lives (sandbox/image/image_inventory.h).
  void Hold();

  const std::string root_;
  const ImageStoreOptions options_;
  const base::Clock& clock_;
  Cancellation cancel_;
  base::Mutex mu_;  // held only for moments; no tool runs under it
  base::CondVar changed_;
  std::map<std::string, std::shared_ptr<Turn>> turns_ ABSL_GUARDED_BY(mu_);  // by the source's record
  // When the registry was asked last, by the source's path. Of names that have a copy.
  std::map<std::string, std::chrono::nanoseconds> asked_ ABSL_GUARDED_BY(mu_);
  bool swept_ ABSL_GUARDED_BY(mu_) = false;
  Fd hold_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::sandbox
