// Converts the delivered message in a call's record to and from JSON (v1::Call::delivered_json). The JSON includes the
// echoed tool call arguments and the stop string that ended the message, so that a later gateway can recognize the
// message. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/chat/chat.h"

namespace ingot::gateway {

struct DeliveredMessage {
  text::Message message;
  std::vector<std::string> echoed_arguments;  // History::Call::echoed_arguments: one per tool call, or empty
  std::string stop = {};                      // History::Ending::stop
};

std::string DeliveredJson(const DeliveredMessage& delivered);
// Returns INVALID_ARGUMENT if `json` is not a message.
absl::StatusOr<DeliveredMessage> ReadDelivered(std::string_view json);

}  // namespace ingot::gateway
