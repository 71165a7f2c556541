// Resolves the parts of earlier answers that a client references by id instead of sending (item_reference in the
// Responses API).
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "base/status.h"
#include "gateway/api/request.h"

namespace ingot::gateway {

// Returns the message that the call with this id delivered, or nullopt if the call is unknown.
using FindDelivered = std::function<std::optional<text::Message>(std::string_view call_id)>;

// Replaces request.references with the delivered parts. If a call is unknown, fails with a 400 error that names the
// first such reference.
absl::Status ResolveReferences(const FindDelivered& find_delivered, GatewayRequest& request);

}  // namespace ingot::gateway
