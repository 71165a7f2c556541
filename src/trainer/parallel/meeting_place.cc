#include "trainer/parallel/meeting_place.h"

#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <cerrno>
#include <cstring>

namespace ingot::trainer {
namespace {

int PortOf(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

}  // namespace

absl::StatusOr<int> ListenForRanks(const std::string& host, int* port) {
  const std::string failed =
      absl::StrCat("rank 0 cannot listen at ", host, ":", *port, ", the ranks' rendezvous address: ");
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE;
  if (const int error = getaddrinfo(host.c_str(), absl::StrCat(*port).c_str(), &wanted, &found); error != 0) {
    return absl::InvalidArgumentError(absl::StrCat(failed, gai_strerror(error)));
  }
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));  // lets a restarted group reuse the port immediately
  const bool listens = fd >= 0 && bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0;
  const int error = errno;
  freeaddrinfo(found);
  if (listens) {
    *port = PortOf(fd);
    return fd;
  }
  if (fd >= 0) close(fd);
  return absl::InvalidArgumentError(absl::StrCat(failed, std::strerror(error)));
}

absl::StatusOr<c10::intrusive_ptr<c10d::Store>> OpenMeetingPlace(const MeetingOptions& options, int listener) {
  c10d::TCPStoreOptions store;
  store.port = static_cast<uint16_t>(options.port);
  store.isServer = options.serves;
  // Without this listener, the store would listen on all of the machine's addresses.
  if (store.isServer) store.masterListenFd = listener;
  store.numWorkers = static_cast<size_t>(options.size);
  store.waitWorkers = false;
  store.timeout = options.timeout;
  try {
    return c10::intrusive_ptr<c10d::Store>(c10::make_intrusive<c10d::PrefixStore>(
        absl::StrCat("ingot/", options.secret), c10::make_intrusive<c10d::TCPStore>(options.host, store)));
  } catch (const std::exception& error) {
    return absl::UnavailableError(error.what());
  }
}

void SurviveClosedSockets() {
  struct sigaction action = {};
  if (sigaction(SIGPIPE, nullptr, &action) == 0 && action.sa_handler == SIG_DFL) signal(SIGPIPE, SIG_IGN);
}

}  // namespace ingot::trainer
