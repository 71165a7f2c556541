// ImageTools runs the programs that fetch and unpack images (skopeo, umoci, buildah), one after the other, in its own
// scratch folder below an image store. The destructor removes the folder.
//
//   ROOT/unpack-<random>/   locked by its process (flock) for as long as it is in use
//
// A tool ends when its process ends, however that ends; processes that the tool started may continue for a while. A
// killed process's folder is known by its missing lock, which works across containers that share a store; pids would
// not. Used by one thread.
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

// Of the names of scratch folders in a store.
inline constexpr char kScratchPrefix[] = "unpack-";

inline constexpr std::chrono::seconds kToolTimeout = std::chrono::minutes(30);

// A folder that a tool unpacks an archive into.
struct UnpackBound {
  std::string folder;
  int64_t archive_bytes = 0;
};

class ImageTools {
 public:
  // `cancel` outlives this. UNAVAILABLE: no folder can be made in the store. RESOURCE_EXHAUSTED: the store's disk is
  // too full.
  static absl::StatusOr<ImageTools> Make(const std::string& root, const ImageLimits& limits,
                                         const Cancellation& cancel);
  ImageTools(ImageTools&& other) noexcept
      : folder_(std::exchange(other.folder_, "")),
        lock_(std::move(other.lock_)),
        limits_(other.limits_),
        cancel_(other.cancel_) {}
  ~ImageTools();

  // Runs a tool and returns its output, of stdout and stderr; of a long one the last 64 KiB. NOT_FOUND: it is not
  // installed. INVALID_ARGUMENT: it failed; the message has its last line. RESOURCE_EXHAUSTED: it was killed at a bound
  // (image_limits.h), which is named. DEADLINE_EXCEEDED, CANCELLED: it was killed.
  absl::StatusOr<std::string> Run(const std::vector<std::string>& argv, std::chrono::seconds timeout = kToolTimeout,
                                  const std::optional<UnpackBound>& bound = std::nullopt) const;
  // The same for a child process that `start` starts as the leader of a session, with the descriptor as its stdout and
  // stderr.
  absl::StatusOr<std::string> RunStarted(const std::string& name,
                                         const std::function<absl::StatusOr<pid_t>(int out)>& start,
                                         std::chrono::seconds timeout = kToolTimeout,
                                         const std::optional<UnpackBound>& bound = std::nullopt) const;

  const std::string& folder() const { return folder_; }

 private:
  ImageTools(std::string folder, Fd lock, const ImageLimits& limits, const Cancellation& cancel)
      : folder_(std::move(folder)), lock_(std::move(lock)), limits_(limits), cancel_(cancel) {}
  // The wait status of a tool.
  absl::StatusOr<int> Await(pid_t pid, const std::string& name, std::chrono::seconds timeout,
                            const std::optional<UnpackBound>& bound) const;

  std::string folder_;  // empty = moved from
  Fd lock_;
  const ImageLimits limits_;
  const Cancellation& cancel_;
};

// Removes the scratch folders of processes that are gone. One that stays is logged.
void RemoveStaleScratch(const std::string& root);

}  // namespace ingot::sandbox
