// Parses a call's message as the client received it (Call.delivered_json). Pure.
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

// A field is empty if the message lacks it or no message was stored.
struct DeliveredMessage {
  std::string content;
  std::string reasoning;
  std::vector<DeliveredToolCall> tool_calls;
};

DeliveredMessage DeliveredBy(const v1::Call& call);

}  // namespace ingot::reward
