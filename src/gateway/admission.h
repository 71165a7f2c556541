// Who decides whether an episode may open. The gateway owns the interface; the app supplies the scheduler (in process
// or over gRPC) behind it, or, for `ingot serve`, nothing: then every episode is a served one. Thread safe; may block
// for one journal write, so the gateway calls it off its I/O threads.
#pragma once

#include "base/status.h"
#include "proto/scheduler.pb.h"

namespace ingot::gateway {

class Admission {
 public:
  virtual ~Admission() = default;
  // RESOURCE_EXHAUSTED: no place now (429). FAILED_PRECONDITION: the run is over (410).
  virtual absl::StatusOr<v1::Ticket> Admit(const v1::AdmitRequest& request) = 0;
  // The episode's end is durable in the pool.
  virtual absl::Status EpisodeEnded(const v1::EpisodeEndedRequest& request) = 0;
};

}  // namespace ingot::gateway
