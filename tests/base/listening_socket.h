// A socket that accepts connections on a free port of the loopback interface, for hand-written servers of a test.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace ingot::base::testing {

class ListeningSocket {
 public:
  ListeningSocket() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(socket_, 8), 0);
    EXPECT_EQ(::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    place_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  ~ListeningSocket() { ::close(socket_); }
  ListeningSocket(const ListeningSocket&) = delete;
  ListeningSocket& operator=(const ListeningSocket&) = delete;

  // HOST:PORT
  const std::string& place() const { return place_; }
  // Blocks until a client connects; below 0 = Shut was called.
  int Accept() const { return ::accept(socket_, nullptr, nullptr); }
  void Shut() const { ::shutdown(socket_, SHUT_RDWR); }

 private:
  const int socket_;
  std::string place_;
};

}  // namespace ingot::base::testing
