#include "execution/guest_agent/link.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

namespace ingot::execution::guest_agent {

void Send(FrameKind kind, uint32_t id, uint32_t number, std::string_view payload) {
  FrameHeader header{static_cast<uint32_t>(payload.size()), kind, id, number};
  iovec parts[2] = {{&header, sizeof(header)}, {const_cast<char*>(payload.data()), payload.size()}};
  size_t left = sizeof(header) + payload.size();
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  while (left > 0) {
    ssize_t sent = sendmsg(kLink, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) _exit(0);
    left -= static_cast<size_t>(sent);
    for (iovec& part : parts) {
      const size_t gone = static_cast<size_t>(sent) < part.iov_len ? static_cast<size_t>(sent) : part.iov_len;
      part.iov_base = static_cast<char*>(part.iov_base) + gone;
      part.iov_len -= gone;
      sent -= static_cast<ssize_t>(gone);
    }
  }
}

bool Incoming::ReadMore() {
  bytes_.erase(0, used_);
  used_ = 0;
  char buffer[65536];
  const ssize_t got = recv(kLink, buffer, sizeof(buffer), MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  bytes_.append(buffer, static_cast<size_t>(got));
  return got > 0;
}

bool Incoming::Next(FrameHeader& header, std::string_view& payload) {
  if (bytes_.size() - used_ < sizeof(header)) return false;
  memcpy(&header, bytes_.data() + used_, sizeof(header));
  if (header.size > kMaxPayload) _exit(1);
  if (bytes_.size() - used_ - sizeof(header) < header.size) return false;
  payload = std::string_view(bytes_).substr(used_ + sizeof(header), header.size);
  used_ += sizeof(header) + header.size;
  return true;
}

bool TakeString(std::string_view& rest, const char*& text) {
  const size_t end = rest.find('\0');
  if (end == std::string_view::npos) return false;
  text = rest.data();
  rest.remove_prefix(end + 1);
  return true;
}

}  // namespace ingot::execution::guest_agent
