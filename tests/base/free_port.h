// A port of the loopback interface for a server that starts later.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace ingot::base::testing {

// A port without a listener; 0 = none. Its socket stays open until the process ends, so that the system does not give
// the port to a program that asks for any port. The server must set SO_REUSEADDR.
inline int FreePort() {
  const int holder = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  ::setsockopt(holder, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (::bind(holder, reinterpret_cast<sockaddr*>(&address), size) != 0) return 0;
  if (::getsockname(holder, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.sin_port);
}

}  // namespace ingot::base::testing
