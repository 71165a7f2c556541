// A Door lets the commands of a sandbox reach the gateway, where the sandbox has a network of its own. Thread safe.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "sandbox/spawn.h"

namespace ingot::agents {

class Door {
 public:
  virtual ~Door() = default;
  // Serves the listening socket of a sandbox until the returned object goes. `base_url`: of the episode, outside the sandbox.
  virtual absl::StatusOr<std::shared_ptr<void>> Open(sandbox::Fd listener, const std::string& base_url) = 0;
};

}  // namespace ingot::agents
