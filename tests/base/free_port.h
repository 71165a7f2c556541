// A port of the loopback interface for a server that starts later.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace ingot::base::testing {

// A port on which no process listens; 0 = there is none. The system gives ports from 32768 on to whoever asks for any, as
// the tests that run beside this one do. These are below, and each process looks from a place of its own on.
inline int FreePort() {
  constexpr int64_t kFirst = 10000, kPorts = 10000;
  static std::atomic<int64_t> next{int64_t{61} * ::getpid()};
  for (int64_t tries = 0; tries < kPorts; ++tries) {
    const auto port = static_cast<uint16_t>(kFirst + next++ % kPorts);
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    const bool is_free = ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    ::close(fd);
    if (is_free) return port;
  }
  return 0;
}

}  // namespace ingot::base::testing
