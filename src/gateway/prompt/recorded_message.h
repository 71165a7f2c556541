// The delivered message in a call's record (v1::Call::delivered_json): its JSON, with the echoed arguments of its tool
// calls, by which a later gateway recognizes them. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/chat.h"

namespace ingot::gateway {

struct DeliveredMessage {
  text::Message message;
  std::vector<std::string> echoed_arguments;  // History::Call::echoed_arguments
};

// `echoed_arguments`: one for each of the message's tool calls, or none at all.
std::string DeliveredJson(const text::Message& message, const std::vector<std::string>& echoed_arguments);
// INVALID_ARGUMENT: `json` is no message.
absl::StatusOr<DeliveredMessage> ReadDelivered(std::string_view json);

}  // namespace ingot::gateway
