// A GatewayAccess lets a sandbox's commands reach the gateway if the sandbox has its own network. Thread safe.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "sandbox/spawn.h"

namespace ingot::agents {

class GatewayAccess {
 public:
  virtual ~GatewayAccess() = default;
  // Serves a sandbox's listening socket until the returned object is destroyed. `base_url` is the episode's base URL
  // outside the sandbox.
  virtual absl::StatusOr<std::shared_ptr<void>> Open(sandbox::Fd listener, const std::string& base_url) = 0;
};

}  // namespace ingot::agents
