// A Sink delivers new versions to one engine. It is the interface between the trainer and the engines.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "weights/delta.h"
#include "weights/snapshot.h"

namespace ingot::weights {

// A version that an engine holds. The number alone does not identify the weights, because a run that returns to a
// checkpoint reuses numbers with different weights.
struct HeldVersion {
  int64_t version = -1;
  uint64_t checksum = 0;  // Snapshot::checksum; 0 = unknown

  bool operator==(const HeldVersion&) const = default;
};

// A shared version's role in an engine.
enum class Place {
  kLive,          // every later step uses it
  kLiveRetained,  // same as kLive, but also kept until its Release if the engine has enough memory
  kBeside,        // retained, without changing the live version
};

// Thread safe.
class Sink {
 public:
  virtual ~Sink() = default;

  // Applies the update and returns once the version is live: it is swapped in between two steps and used by every later
  // step. An update with `beside` does not change the live version. The engine keeps a retained version until its
  // Release, or answers that it has no memory for it. Returns FAILED_PRECONDITION if the engine does not hold the
  // delta's base, and DATA_LOSS if a checksum differs. After either error, nothing has changed, and sending a full copy
  // fixes the problem.
  virtual absl::StatusOr<v1::UpdateWeightsResponse> Update(const EncodedDelta& delta) = 0;

  // Same as Update, but for a sender that may cancel. An engine calls `cancelled` when it is this update's turn, and
  // again before the version becomes live. If it returns true, the update returns CANCELLED and changes nothing. So an
  // abandoned update that had to wait never replaces a later one.
  virtual absl::StatusOr<v1::UpdateWeightsResponse> UpdateUnless(const EncodedDelta& delta,
                                                                 const std::function<bool()>& cancelled) {
    if (cancelled()) return absl::CancelledError("the sender canceled the update");
    return Update(delta);
  }

  // True = the engine reads this process's memory. It gets each version through Share, and nothing is encoded for it.
  virtual bool SharesMemory() const { return false; }

  // Same as Update, but for an engine that shares memory. It reads the snapshot's tensors in place.
  virtual absl::StatusOr<v1::UpdateWeightsResponse> Share(const std::shared_ptr<const Snapshot>& snapshot,
                                                          Place place) {
    return absl::UnimplementedError(absl::StrCat("version ", snapshot->version(), " cannot be shared as place ",
                                                 static_cast<int>(place), ": the engine is in another process"));
  }

  // Frees a retained version.
  virtual absl::Status Release(int64_t version) = 0;

  // Returns the newest live version, or -1 if there is none, as after a restart. Returns immediately, even during an
  // update. Returns UNAVAILABLE if the engine is unreachable.
  virtual absl::StatusOr<int64_t> LiveVersion() = 0;

  // Returns the live version and the retained ones. Timing and errors are the same as for LiveVersion.
  virtual absl::StatusOr<std::vector<HeldVersion>> HeldVersions() = 0;
};

}  // namespace ingot::weights
