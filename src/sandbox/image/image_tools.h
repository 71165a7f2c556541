// Runs the programs that fetch and unpack images (skopeo, umoci, buildah), one at a time, in a scratch folder below an
// image store. The destructor removes the folder.
//
//   ROOT/unpack-<random>/   locked by its process (flock) while in use
//
// A tool is killed when this process ends for any reason, but processes that it started may run a little longer. The
// folder of a dead process is recognized by its missing lock. Unlike pids, this works across containers that share a
// store. Use from one thread.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "sandbox/image/image_limits.h"
#include "sandbox/process.h"
#include "sandbox/spawn.h"

namespace ingot::sandbox {

// The name prefix of scratch folders in a store.
inline constexpr char kScratchPrefix[] = "unpack-";

inline constexpr std::chrono::seconds kToolTimeout = std::chrono::minutes(30);

// The folder where a tool unpacks an archive.
struct UnpackBound {
  std::string folder;
  int64_t archive_bytes = 0;
};

class ImageTools {
 public:
  // Returns UNAVAILABLE if no folder can be created in the store, and RESOURCE_EXHAUSTED if the store's disk is too
  // full. REQUIRES: `cancel` outlives this object.
  static absl::StatusOr<ImageTools> Make(const std::string& root, const ImageLimits& limits,
                                         const Cancellation& cancel);
  ImageTools(ImageTools&& other) noexcept
      : folder_(std::exchange(other.folder_, "")),
        lock_(std::move(other.lock_)),
        limits_(other.limits_),
        cancel_(other.cancel_) {}
  ~ImageTools();

  // Runs a tool and returns its combined stdout and stderr, limited to the last 64 KiB. Errors:
  // - NOT_FOUND: the tool is not installed.
  // - INVALID_ARGUMENT: the tool failed. The message includes its last line.
  // - RESOURCE_EXHAUSTED: the tool was killed at a limit (image_limits.h), which the message names.
  // - DEADLINE_EXCEEDED or CANCELLED: the tool was killed.
  absl::StatusOr<std::string> Run(const std::vector<std::string>& argv, std::chrono::seconds timeout = kToolTimeout,
                                  const std::optional<UnpackBound>& bound = std::nullopt) const;
  // Same as Run, but for a child process that `start` starts as a session leader with `out` as its stdout and stderr.
  absl::StatusOr<std::string> RunStarted(const std::string& name,
                                         const std::function<absl::StatusOr<pid_t>(int out)>& start,
                                         std::chrono::seconds timeout = kToolTimeout,
                                         const std::optional<UnpackBound>& bound = std::nullopt) const;

  const std::string& folder() const { return folder_; }

 private:
  ImageTools(std::string folder, Fd lock, const ImageLimits& limits, const Cancellation& cancel)
      : folder_(std::move(folder)), lock_(std::move(lock)), limits_(limits), cancel_(cancel) {}
  // Returns a tool's wait status.
  absl::StatusOr<int> Await(pid_t pid, const std::string& name, std::chrono::seconds timeout,
                            const std::optional<UnpackBound>& bound) const;

  std::string folder_;  // empty = moved from
  Fd lock_;
  const ImageLimits limits_;
  const Cancellation& cancel_;
};

// Removes the scratch folders of dead processes. Logs folders that cannot be removed.
void RemoveStaleScratch(const std::string& root);

}  // namespace ingot::sandbox
