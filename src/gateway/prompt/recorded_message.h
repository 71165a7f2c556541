// What a call delivered, as its record keeps it (v1::Call::delivered_json): the message's JSON, and in its tool calls
// also what a later gateway needs to know them again. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/chat.h"

namespace ingot::gateway {

struct DeliveredMessage {
  text::Message message;
  std::vector<std::string> echoed_arguments;  // History::Call's
};

// `echoed_arguments`: one for each of the message's tool calls, or none.
std::string DeliveredJson(const text::Message& message, const std::vector<std::string>& echoed_arguments);
// INVALID_ARGUMENT: it is not a message's JSON.
absl::StatusOr<DeliveredMessage> ReadDelivered(std::string_view json);

}  // namespace ingot::gateway
