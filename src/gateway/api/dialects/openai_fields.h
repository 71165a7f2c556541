// What several of OpenAI's dialects read alike. Internal to the folder.
#pragma once

#include <string_view>
#include <vector>

#include "gateway/api/fields.h"
#include "gateway/api/request.h"

namespace ingot::gateway {

constexpr int kMaxTopLogprobs = 20;
constexpr size_t kMaxListed = 1 << 20;  // messages or items; a body's size bounds them further

// n and stream_options.
void ReadChoices(Fields& body, GatewayRequest& request);

// tool_choice: a mode, {"type":T,"name":...} or {"type":T,T:{"name":...}}, or the same for several under allowed_tools.
absl::Status ReadToolChoice(Fields& body, GatewayRequest& request);

}  // namespace ingot::gateway
