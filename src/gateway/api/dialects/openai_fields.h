// Reads the request fields that several OpenAI dialects share. Internal to this directory.
#pragma once

#include <string_view>
#include <vector>

#include "gateway/api/fields.h"
#include "gateway/api/request.h"

namespace ingot::gateway {

constexpr size_t kMaxListed = 1 << 20;  // messages or items; the body size limits them too

// Reads n and stream_options.
void ReadChoices(Fields& body, GatewayRequest& request);

// Reads tool_choice: a mode, {"type":T,"name":...}, {"type":T,T:{"name":...}}, or a list of these under allowed_tools.
absl::Status ReadToolChoice(Fields& body, GatewayRequest& request);

}  // namespace ingot::gateway
