// ImageTools runs the programs that fetch and unpack images (skopeo, umoci, buildah), one after the other, in a scratch folder
// of its own below an image store. The folder goes with the object.
//
//   ROOT/unpack-<random>/   locked by its process (flock) for as long as it is in use
//
// A tool ends when its process ends, however that ends; what the tool started may go on for a while. A folder that a killed
// process left is known by its missing lock, which holds across containers that share a store; pids would not. Used by one
// thread.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/status.h"
#include "sandbox/disk_watch.h"
#include "sandbox/process.h"
#include "sandbox/spawn.h"

namespace ingot::sandbox {

// Of the names of scratch folders in a store.
inline constexpr char kScratchPrefix[] = "unpack-";

class ImageTools {
 public:
  // `limits`: of the scratch folder. `cancel` outlives this. UNAVAILABLE: no folder can be made in the store.
  static absl::StatusOr<ImageTools> Make(const std::string& root, const DiskLimits& limits, const Cancellation& cancel);
  ImageTools(ImageTools&& other) noexcept
      : folder_(std::exchange(other.folder_, "")),
        lock_(std::move(other.lock_)),
        limits_(other.limits_),
        cancel_(other.cancel_) {}
  ~ImageTools();

  // Runs a tool and returns its output, of stdout and stderr. NOT_FOUND: it is not installed. INVALID_ARGUMENT: it failed; the
  // message has its last line. DEADLINE_EXCEEDED, CANCELLED, RESOURCE_EXHAUSTED (the folder's limits): it was killed.
  absl::StatusOr<std::string> Run(const std::vector<std::string>& argv,
                                  std::chrono::seconds patience = std::chrono::minutes(30)) const;

  const std::string& folder() const { return folder_; }

 private:
  ImageTools(std::string folder, Fd lock, const DiskLimits& limits, const Cancellation& cancel)
      : folder_(std::move(folder)), lock_(std::move(lock)), limits_(limits), cancel_(cancel) {}
  // The wait status of a tool.
  absl::StatusOr<int> Await(pid_t pid, const std::string& name, std::chrono::seconds patience) const;

  std::string folder_;  // empty = moved from
  Fd lock_;
  const DiskLimits limits_;
  const Cancellation& cancel_;
};

// Removes the scratch folders of processes that are gone. One that stays is logged.
void RemoveStaleScratch(const std::string& root);

}  // namespace ingot::sandbox
