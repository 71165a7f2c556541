// Sends and receives frames at the guest agent's end of the socket to the service.
#pragma once

#include <string>
#include <string_view>

#include "execution/guest_agent_messages.h"

namespace ingot::execution::guest_agent {

// The socket's file descriptor, inherited at startup.
inline constexpr int kLink = 1;

// Sends one frame and blocks until the socket has accepted it. Exits the process if the other end is closed.
void Send(FrameKind kind, uint32_t id, uint32_t number, std::string_view payload);

// Buffers received frames.
class Incoming {
 public:
  // Reads the bytes that are available now. Returns false if the service has closed the socket.
  bool ReadMore();
  // Returns the next complete frame, or false if none has arrived. `payload` is valid until the next call.
  bool Next(FrameHeader& header, std::string_view& payload);

 private:
  std::string bytes_;
  size_t used_ = 0;
};

// Removes a NUL-terminated string from the front of `rest`. Returns false if there is no complete string.
bool TakeString(std::string_view& rest, const char*& text);

}  // namespace ingot::execution::guest_agent
