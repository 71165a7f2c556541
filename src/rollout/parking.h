// Makes an engine step aside while the trainer uses the device that both share (cluster.placement: shared; Kimi k1.5,
// arXiv 2501.12599, section 2.6.3). Implemented by Engine, and by a gRPC stub for an engine in another process.
//
//   engine   ███ steps ███ park · · · · · · · · · · · resume ███ steps (KV is computed again)
//   trainer                     ███ step ███ publish
#pragma once

#include "base/status.h"
#include "proto/parking.pb.h"

namespace ingot::rollout {

// Thread safe. proto/parking.proto describes the calls and their errors. Both also return UNAVAILABLE if the engine is
// shutting down or cannot be reached.
class Parking {
 public:
  virtual ~Parking() = default;
  virtual absl::StatusOr<v1::ParkResponse> Park(const v1::ParkRequest& request) = 0;
  virtual absl::Status Resume() = 0;
};

}  // namespace ingot::rollout
