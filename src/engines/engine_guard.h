// Takes an engine out of use if its tokens are not from the trained policy (rollout.external.max_mismatch). Implemented
// by ExternalEngine, and by a gRPC stub for an engine in another process.
#pragma once

#include <string>

#include "base/status.h"

namespace ingot::engines {

class EngineGuard {
 public:
  virtual ~EngineGuard() = default;

  // Ends the engine's requests with UNAVAILABLE and rejects new ones, so that they move to other engines. Updates wait.
  // This lasts until the engine's server has been restarted. Errors include `why`. Does nothing if the engine is
  // already set aside. Returns UNAVAILABLE if the engine cannot be reached. Thread safe.
  virtual absl::Status SetAside(const std::string& why) = 0;
};

}  // namespace ingot::engines
