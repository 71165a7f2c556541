// Where a new version goes: the seam between the trainer that makes versions and the engines that serve them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "weights/delta.h"
#include "weights/snapshot.h"

namespace ingot::weights {

// A number alone says little: a run that went back to a checkpoint makes it anew, with other weights.
struct HeldVersion {
  int64_t version = -1;
  uint64_t checksum = 0;  // Snapshot::checksum; 0: not said

  bool operator==(const HeldVersion&) const = default;
};

// One engine, seen from the sender. Thread safe.
class Sink {
 public:
  virtual ~Sink() = default;

  // Applies the update and returns once the version is live, i.e. swapped in between two steps and used by every step
  // after; one to hold `beside` changes nothing of what is live. FAILED_PRECONDITION: the base is not what the engine
  // holds; DATA_LOSS: a checksum differs; in both cases nothing changed and a full copy heals. The engine keeps
  // versions that `retain` asked for until Release, or says that it has no room for one more.
  virtual absl::StatusOr<v1::UpdateWeightsResponse> Update(const EncodedDelta& delta) = 0;

  virtual absl::Status Release(int64_t version) = 0;

  // The newest version that is live; -1: none, as after a restart. Answers at once, also during an update; UNAVAILABLE
  // while the engine cannot be reached.
  virtual absl::StatusOr<int64_t> LiveVersion() = 0;

  // The live one and those that are retained; as LiveVersion otherwise.
  virtual absl::StatusOr<std::vector<HeldVersion>> HeldVersions() = 0;
};

}  // namespace ingot::weights
