#include "app/checks/port_check.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace ingot::app {

absl::StatusOr<HeldPort> HoldPort(const std::string& key, const std::string& host, int port) {
  addrinfo wanted = {}, *found = nullptr;
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE;
  const int unknown = getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &wanted, &found);
  if (unknown != 0) return absl::InvalidArgumentError(absl::StrCat(key, ": '", host, "': ", gai_strerror(unknown)));
  base::Fd fd(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  int error = fd.valid() ? 0 : errno;
  const int yes = 1;
  if (error == 0) setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));  // same as servers
  if (error == 0 && bind(fd.get(), found->ai_addr, found->ai_addrlen) != 0) error = errno;
  // The port is at the same offset in both address types.
  if (error == 0 && getsockname(fd.get(), found->ai_addr, &found->ai_addrlen) != 0) error = errno;
  const int bound = ntohs(reinterpret_cast<const sockaddr_in*>(found->ai_addr)->sin_port);
  freeaddrinfo(found);
  if (error == 0) return HeldPort{bound, std::move(fd)};
  return absl::UnavailableError(absl::StrCat(key, ": cannot listen on ", host, ":", port, ": ", std::strerror(error)));
}

absl::Status CheckPort(const std::string& key, const std::string& host, int port) {
  return HoldPort(key, host, port).status();
}

}  // namespace ingot::app
