// Parts of earlier answers that a client names by their ids instead of sending them (Responses API: item_reference).
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "base/status.h"
#include "gateway/api/request.h"

namespace ingot::gateway {

// The delivered message of the call with this id; nullopt = unknown.
using FindDelivered = std::function<std::optional<text::Message>(std::string_view call_id)>;

// Puts the delivered parts in place of request.references. 400 names the first reference whose call is unknown.
absl::Status ResolveReferences(const FindDelivered& find_delivered, GatewayRequest& request);

}  // namespace ingot::gateway
