// A Sink takes new versions for one engine: the seam between the trainer, which makes versions, and the engines.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "weights/delta.h"
#include "weights/snapshot.h"

namespace ingot::weights {

// A version that an engine holds. The number alone does not name weights: a run that went back to a checkpoint makes
// the number again, with other weights.
struct HeldVersion {
  int64_t version = -1;
  uint64_t checksum = 0;  // Snapshot::checksum; 0 = the engine did not name it

  bool operator==(const HeldVersion&) const = default;
};

// The part that a shared version plays in an engine.
enum class Place {
  kLive,          // every later step runs on it
  kLiveRetained,  // and the engine keeps it until its Release, if it has room
  kBeside,        // retained, and the live version stays
};

// Thread safe.
class Sink {
 public:
  virtual ~Sink() = default;

  // Applies the update and returns once the version is live: swapped in between two steps and used by every later step.
  // An update to be held `beside` leaves the live version as it is. The engine keeps a version to be retained until its
  // Release, or answers that it has no room for it. FAILED_PRECONDITION: the engine does not hold the delta's base.
  // DATA_LOSS: a checksum differs. After both nothing has changed, and a full copy heals.
  virtual absl::StatusOr<v1::UpdateWeightsResponse> Update(const EncodedDelta& delta) = 0;

  // True: the engine reads this process's memory. It is given each version by Share, and nothing is encoded for it.
  virtual bool SharesMemory() const { return false; }

  // Update for an engine that shares memory. It reads the snapshot's tensors where they are, and copies none.
  virtual absl::StatusOr<v1::UpdateWeightsResponse> Share(const std::shared_ptr<const Snapshot>& snapshot,
                                                          Place place) {
    return absl::UnimplementedError(absl::StrCat("version ", snapshot->version(), " cannot be shared as place ",
                                                 static_cast<int>(place), ": the engine is in another process"));
  }

  // Frees a retained version.
  virtual absl::Status Release(int64_t version) = 0;

  // The newest live version; -1 = none, as after a restart. Answers at once, also during an update. UNAVAILABLE: the
  // engine cannot be reached.
  virtual absl::StatusOr<int64_t> LiveVersion() = 0;

  // The live version and the retained ones. Answers and fails as LiveVersion.
  virtual absl::StatusOr<std::vector<HeldVersion>> HeldVersions() = 0;
};

}  // namespace ingot::weights
