#include "trainer/parallel/liveness.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/cord.h"
#include "base/secret.h"

namespace ingot::trainer {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr milliseconds kHelloTime{5000};
constexpr char kLostPayload[] = "ingot.rank_lost";

// A message is one byte. kLost + r means that rank 0 lost rank r.
constexpr unsigned char kBeat = 0, kGoodbye = 1, kLost = 128;

absl::StatusOr<sockaddr_in> AddressOf(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    return absl::UnavailableError(absl::StrCat("cannot resolve ", host, ": ", gai_strerror(error)));
  }
  sockaddr_in address = *reinterpret_cast<const sockaddr_in*>(found->ai_addr);
  freeaddrinfo(found);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

absl::Status SocketError(const std::string& what) { return absl::ErrnoToStatus(errno, what); }

// Waits until `fd` is readable. Returns false if the clock reached `until` first.
bool ReadableBefore(int fd, const base::Clock& clock, nanoseconds until) {
  while (true) {
    const auto left = std::chrono::ceil<milliseconds>(until - clock.Now()).count();
    if (left <= 0) return false;
    pollfd waited{fd, POLLIN, 0};
    if (poll(&waited, 1, static_cast<int>(std::min<int64_t>(left, 1000))) > 0) return true;
  }
}

// Returns `size` bytes, or fewer if the peer closed the connection or the clock reached `until`.
std::string Receive(int fd, size_t size, const base::Clock& clock, nanoseconds until) {
  std::string bytes;
  while (bytes.size() < size && ReadableBefore(fd, clock, until)) {
    char buffer[256];
    const ssize_t got = recv(fd, buffer, std::min(sizeof(buffer), size - bytes.size()), 0);
    if (got <= 0) break;
    bytes.append(buffer, static_cast<size_t>(got));
  }
  return bytes;
}

void Send(int fd, unsigned char message) {
  // If the buffer is full, the message is lost. A peer that does not read heartbeats does not send any either, and its
  // watcher detects that.
  [[maybe_unused]] const auto sent = send(fd, &message, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

// The system's default limit is two minutes.
void LimitConnecting(int fd, milliseconds timeout) {
  const timeval longest{.tv_sec = timeout.count() / 1000, .tv_usec = timeout.count() % 1000 * 1000};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof(longest));
}

void Close(int& fd) {
  if (fd >= 0) close(fd);
  fd = -1;
}

}  // namespace

absl::Status RankLost(const std::string& what) {
  absl::Status status = absl::UnavailableError(what);
  status.SetPayload(kLostPayload, absl::Cord("1"));
  return status;
}

bool IsRankLost(const absl::Status& status) { return status.GetPayload(kLostPayload).has_value(); }

Liveness::Liveness(LivenessOptions options)
    : options_(std::move(options)), wake_fd_(eventfd(0, EFD_CLOEXEC)), thread_({.name = "liveness"}, *options_.clock) {}

absl::StatusOr<std::unique_ptr<Liveness>> Liveness::Listen(LivenessOptions options) {
  std::unique_ptr<Liveness> made(new Liveness(std::move(options)));
  const std::string& host = made->options_.host;
  INGOT_ASSIGN_OR_RETURN(sockaddr_in address, AddressOf(host, 0));
  made->listen_fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  auto* const where = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof(address);
  if (made->listen_fd_ < 0 || bind(made->listen_fd_, where, size) != 0 ||
      listen(made->listen_fd_, made->options_.size) != 0 || getsockname(made->listen_fd_, where, &size) != 0) {
    return SocketError(absl::StrCat("cannot listen at ", host, " for the other ranks' heartbeats"));
  }
  made->port_ = ntohs(address.sin_port);
  return made;
}

absl::Status Liveness::Accept() {
  const base::Clock& clock = *options_.clock;
  const nanoseconds until = clock.Now() + options_.join_timeout;
  std::vector<bool> here(static_cast<size_t>(options_.size), false);
  here[0] = true;
  while (static_cast<int>(peers_.size()) + 1 < options_.size) {
    if (!ReadableBefore(listen_fd_, clock, until)) {
      const auto missing = std::find(here.begin(), here.end(), false) - here.begin();
      return RankLost(absl::StrCat("rank ", missing, " of ", options_.size, " did not connect within ",
                                   options_.join_timeout.count(), " ms"));
    }
    int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    // The first byte identifies the sender. The secret follows.
    const std::string hello = Receive(fd, 1 + options_.secret.size(), clock, std::min(until, clock.Now() + kHelloTime));
    const size_t rank = hello.empty() ? here.size() : static_cast<unsigned char>(hello[0]);
    const bool reported = rank < here.size() && !here[rank] && base::SameSecret(hello.substr(1), options_.secret);
    if (!reported) {  // not one of this trainer's ranks
      Close(fd);
      continue;
    }
    here[rank] = true;
    peers_.push_back({static_cast<int>(rank), fd, clock.Now()});
  }
  Close(listen_fd_);
  StartWatching();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Liveness>> Liveness::Connect(LivenessOptions options, int port) {
  std::unique_ptr<Liveness> made(new Liveness(std::move(options)));
  INGOT_ASSIGN_OR_RETURN(sockaddr_in address, AddressOf(made->options_.host, port));
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0) LimitConnecting(fd, made->options_.join_timeout);
  if (fd < 0 || connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    const absl::Status why =
        SocketError(absl::StrCat("cannot connect to rank 0's heartbeat port at ", made->options_.host));
    Close(fd);
    return RankLost(std::string(why.message()));
  }
  const std::string hello = static_cast<char>(made->options_.rank) + made->options_.secret;
  if (send(fd, hello.data(), hello.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(hello.size())) {
    const absl::Status why =
        SocketError(absl::StrCat("cannot send to rank 0's heartbeat port at ", made->options_.host));
    Close(fd);
    return RankLost(std::string(why.message()));
  }
  made->peers_.push_back({0, fd, made->options_.clock->Now()});
  made->StartWatching();
  return made;
}

Liveness::~Liveness() {
  StopWatching();
  for (Peer& peer : peers_) Close(peer.fd);
  Close(listen_fd_);
  Close(wake_fd_);
}

absl::Status Liveness::status() const {
  const base::MutexLock lock(mu_);
  return status_;
}

void Liveness::Leave() {
  goodbye_ = true;
  StopWatching();
}

void Liveness::StopWatching() {
  stopping_ = true;
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = write(wake_fd_, &one, sizeof(one));
  thread_.Shutdown();
}

void Liveness::StartWatching() {
  for (Peer& peer : peers_) {
    fcntl(peer.fd, F_SETFL, fcntl(peer.fd, F_GETFL) | O_NONBLOCK);
    peer.heard = options_.clock->Now();
  }
  thread_.Post([this] { Watch(); });
}

void Liveness::SendAll(unsigned char message) {
  for (const Peer& peer : peers_) {
    if (peer.fd >= 0) Send(peer.fd, message);
  }
}

void Liveness::Watch() {
  const milliseconds interval = std::clamp(options_.deadline / 10, milliseconds(10), milliseconds(1000));
  const base::Clock& clock = *options_.clock;
  nanoseconds next_beat = clock.Now();
  while (!stopping_) {
    if (clock.Now() >= next_beat) {
      SendAll(kBeat);
      next_beat = clock.Now() + interval;
    }
    WaitForInput(interval);
    // Reads all input before checking for silence. If this process itself was suspended for a while, the heartbeats
    // from that time are still in the sockets.
    for (Peer& peer : peers_) {
      if (peer.fd >= 0 && !Read(peer)) return;
    }
    const nanoseconds now = clock.Now();
    for (const Peer& peer : peers_) {
      if (peer.fd >= 0 && now - peer.heard > options_.deadline) {
        Lose(peer.rank, absl::StrCat("sent no heartbeat for ", options_.deadline.count(), " ms"));
        return;
      }
    }
  }
  if (goodbye_) SendAll(kGoodbye);
}

void Liveness::WaitForInput(milliseconds timeout) {
  std::vector<pollfd> waited = {{wake_fd_, POLLIN, 0}};
  for (const Peer& peer : peers_) {
    if (peer.fd >= 0) waited.push_back({peer.fd, POLLIN, 0});
  }
  poll(waited.data(), waited.size(), static_cast<int>(timeout.count()));
}

bool Liveness::Read(Peer& peer) {
  unsigned char bytes[256];
  while (true) {
    const ssize_t count = recv(peer.fd, bytes, sizeof(bytes), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (count <= 0) {
      Lose(peer.rank, "disconnected unexpectedly");
      return false;
    }
    peer.heard = options_.clock->Now();
    for (const unsigned char* byte = bytes; byte < bytes + count; ++byte) {
      if (*byte == kGoodbye) {
        Close(peer.fd);
        return true;
      }
      if (*byte >= kLost) {
        Lose(*byte - kLost, "was reported lost by rank 0");
        return false;
      }
    }
  }
}

void Liveness::Lose(int rank, const std::string& how) {
  const absl::Status lost = RankLost(absl::StrCat("rank ", rank, " of ", options_.size, " ", how));
  {
    const base::MutexLock lock(mu_);
    status_ = lost;
  }
  if (options_.rank == 0) SendAll(static_cast<unsigned char>(kLost + rank));
  if (options_.on_lost) options_.on_lost(lost);
}

}  // namespace ingot::trainer
