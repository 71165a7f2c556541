// Ids of ours that come back with the messages of a conversation.
#pragma once

#include <string>
#include <vector>

#include "text/shared_list.h"

namespace ingot::gateway {

// Per message, ids of ours that came back with it (a call id stands in each of them), besides those of its tool calls.
// Settled where the messages are. Empty: none came with any.
using EchoedIds = text::SharedList<std::vector<std::string>>;

// Null: none came with that message.
inline const std::vector<std::string>* EchoedOf(const EchoedIds& echoed, size_t message) {
  return message < echoed.size() ? &echoed[message] : nullptr;
}

}  // namespace ingot::gateway
