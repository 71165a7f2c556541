// The delivered message in a call's record (v1::Call::delivered_json): its JSON, with the echoed arguments of its tool
// calls and the stop string that ended it, by which a later gateway recognizes it. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/chat/chat.h"

namespace ingot::gateway {

struct DeliveredMessage {
  text::Message message;
  std::vector<std::string> echoed_arguments;  // History::Call::echoed_arguments: one for each tool call, or none
  std::string stop = {};                      // History::Ending::stop
};

std::string DeliveredJson(const DeliveredMessage& delivered);
// INVALID_ARGUMENT: `json` is not a message.
absl::StatusOr<DeliveredMessage> ReadDelivered(std::string_view json);

}  // namespace ingot::gateway
