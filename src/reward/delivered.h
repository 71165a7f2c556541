// The message of a call as its client received it (Call.delivered_json), in parts. Pure.
#pragma once

#include <string>
#include <vector>

#include "proto/tree.pb.h"

namespace ingot::reward {

struct DeliveredToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // JSON text
};

// A part is empty if the message lacks it, or if no message was stored.
struct DeliveredMessage {
  std::string content;
  std::string reasoning;
  std::vector<DeliveredToolCall> tool_calls;
};

DeliveredMessage DeliveredBy(const v1::Call& call);

}  // namespace ingot::reward
