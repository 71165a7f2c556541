// The guest agent's end of its socket.
#pragma once

#include <string>
#include <string_view>

#include "execution/guest_agent_messages.h"

namespace ingot::execution::guest_agent {

// The socket of the service, a descriptor that the guest agent was started with.
inline constexpr int kLink = 1;

// Sends one frame and waits until the socket has taken it. Ends the guest agent if the other end is gone.
void Send(FrameKind kind, uint32_t id, uint32_t number, std::string_view payload);

// The frames that came.
class Incoming {
 public:
  // Reads the bytes that are there now. False: the service has gone.
  bool ReadMore();
  // The next whole frame; false = none has arrived. `payload` lives until the next call.
  bool Next(FrameHeader& header, std::string_view& payload);

 private:
  std::string bytes_;
  size_t used_ = 0;
};

// Takes a string and its NUL from the front of `rest`. False: no complete string.
bool TakeString(std::string_view& rest, const char*& text);

}  // namespace ingot::execution::guest_agent
