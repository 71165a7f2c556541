// Defines the ids that this gateway issued and that a client sent back with its messages.
#pragma once

#include <string>
#include <vector>

namespace ingot::gateway {

// For each message, the ids that were sent back with it, except tool call ids. Each id contains a call id. Empty if no
// message had an id.
using EchoedIds = std::vector<std::vector<std::string>>;

// Returns the ids that were sent back with `message`, or nullptr if no message had an id.
inline const std::vector<std::string>* EchoedOf(const EchoedIds& echoed, size_t message) {
  return message < echoed.size() ? &echoed[message] : nullptr;
}

}  // namespace ingot::gateway
