// Ids of this gateway that a client sent back with the messages of a conversation.
#pragma once

#include <string>
#include <vector>

namespace ingot::gateway {

// Per message, the gateway's ids that came back with it, other than ids of tool calls. Each contains a call id.
// Empty = no message came with an id.
using EchoedIds = std::vector<std::vector<std::string>>;

// nullptr = that message came without an id.
inline const std::vector<std::string>* EchoedOf(const EchoedIds& echoed, size_t message) {
  return message < echoed.size() ? &echoed[message] : nullptr;
}

}  // namespace ingot::gateway
