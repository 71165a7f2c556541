// A GatewayAccess to a gateway in another process. A thread in this process relays the sandboxes' connections
// (sandbox/egress/relay.h).
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "agents/gateway_access.h"
#include "sandbox/egress/relay.h"

namespace ingot::agents {

class GatewayRelay final : public GatewayAccess {
 public:
  absl::StatusOr<std::shared_ptr<void>> Open(sandbox::Fd listener, const std::string& base_url) override {
    INGOT_RETURN_IF_ERROR(relay_.status());
    return (*relay_)->Serve(std::move(listener), base_url);
  }

 private:
  const absl::StatusOr<std::shared_ptr<sandbox::Relay>> relay_ = sandbox::Relay::Start();
};

}  // namespace ingot::agents
