// A Sink takes new versions for one engine: the seam between the trainer, which makes versions, and the engines.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "weights/delta.h"
#include "weights/snapshot.h"

namespace ingot::weights {

// A version that an engine holds. The number does not identify the weights: a run that went back to a checkpoint uses
// the number again, with other weights.
struct HeldVersion {
  int64_t version = -1;
  uint64_t checksum = 0;  // Snapshot::checksum; 0 = unknown

  bool operator==(const HeldVersion&) const = default;
};

// The role of a shared version in an engine.
enum class Place {
  kLive,          // every later step uses it
  kLiveRetained,  // and the engine keeps it until its Release, if its memory allows
  kBeside,        // retained, and the live version stays
};

// Thread safe.
class Sink {
 public:
  virtual ~Sink() = default;

  // Applies the update and returns once the version is live: swapped in between two steps and used by every later step.
  // An update with `beside` does not change the live version. The engine keeps a retained version until its Release, or
  // answers that it has no memory for it. FAILED_PRECONDITION: the engine does not hold the delta's base. DATA_LOSS: a
  // checksum differs. After both errors nothing has changed, and a full copy recovers.
  virtual absl::StatusOr<v1::UpdateWeightsResponse> Update(const EncodedDelta& delta) = 0;

  // True = the engine reads this process's memory. It gets each version by Share, and nothing is encoded for it.
  virtual bool SharesMemory() const { return false; }

  // Update for an engine that shares memory. It reads the snapshot's tensors in place.
  virtual absl::StatusOr<v1::UpdateWeightsResponse> Share(const std::shared_ptr<const Snapshot>& snapshot,
                                                          Place place) {
    return absl::UnimplementedError(absl::StrCat("version ", snapshot->version(), " cannot be shared as place ",
                                                 static_cast<int>(place), ": the engine is in another process"));
  }

  // Frees a retained version.
  virtual absl::Status Release(int64_t version) = 0;

  // The newest live version; -1 = none, as after a restart. Answers immediately, also during an update. UNAVAILABLE:
  // the engine cannot be reached.
  virtual absl::StatusOr<int64_t> LiveVersion() = 0;

  // The live version and the retained ones. Answers and fails as LiveVersion.
  virtual absl::StatusOr<std::vector<HeldVersion>> HeldVersions() = 0;
};

}  // namespace ingot::weights
