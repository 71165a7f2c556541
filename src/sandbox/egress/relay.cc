#include "sandbox/egress/relay.h"

#include <fcntl.h>
#include <netdb.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/log.h"

namespace ingot::sandbox {

struct Relay::Address {
  sockaddr_storage address{};
  socklen_t size = 0;
};

namespace {

constexpr size_t kBuffer = 64 * 1024;

struct HostAndPort {
  std::string host, port;
};

std::optional<HostAndPort> SplitUrl(const std::string& url) {
  const size_t scheme = url.find("://");
  if (scheme == std::string::npos) return std::nullopt;
  std::string rest = url.substr(scheme + 3);
  rest = rest.substr(0, rest.find('/'));
  HostAndPort split{rest, url.starts_with("https") ? "443" : "80"};
  const size_t bracket = rest.rfind(']');
  const size_t colon = rest.rfind(':');
  if (colon != std::string::npos && (bracket == std::string::npos || colon > bracket)) {
    split = {rest.substr(0, colon), rest.substr(colon + 1)};
  }
  if (split.host.starts_with('[') && split.host.ends_with(']'))
    split.host = split.host.substr(1, split.host.size() - 2);
  if (split.host.empty() || split.port.empty()) return std::nullopt;
  return split;
}

// One direction of a connection. Reads while its buffer is empty, and writes while it is not.
struct Flow {
  std::string bytes;
  bool ended = false;      // no more bytes will arrive
  bool passed_on = false;  // the other side was notified
};

// Both ends of a connection: [0] in the sandbox, [1] at the gateway. flows[i] holds the bytes from ends[i].
struct Pair {
  std::array<Fd, 2> ends;
  std::array<Flow, 2> flows;
  std::array<uint32_t, 2> events{};
  uint64_t listener = 0;  // id of the listener
  bool connecting = true;
};

}  // namespace

class Relay::Loop {
 public:
  Loop() : epoll_(epoll_create1(EPOLL_CLOEXEC)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  bool valid() const { return epoll_.valid() && wake_.valid() && Watch(EPOLL_CTL_ADD, wake_.get(), EPOLLIN); }

  uint64_t Add(Fd listener, const Address& address) {
    fcntl(listener.get(), F_SETFL, O_NONBLOCK);
    base::MutexLock lock(mu_);
    const uint64_t id = next_++;
    changes_.push_back([this, id, address, held = std::make_shared<Fd>(std::move(listener))] {
      Watch(EPOLL_CTL_ADD, held->get(), EPOLLIN);
      const int fd = held->get();
      listeners_[id] = fd;
      routes_[fd] = {std::move(*held), address, id};
    });
    Wake();
    return id;
  }

  void Remove(uint64_t id) {
    base::MutexLock lock(mu_);
    changes_.push_back([this, id] {
      if (const auto found = listeners_.find(id); found != listeners_.end()) {
        routes_.erase(found->second);
        listeners_.erase(found);
      }
    });
    Wake();
  }

  void Stop() {
    base::MutexLock lock(mu_);
    stops_ = true;
    Wake();
  }

  void Run() {
    std::array<epoll_event, 64> events;
    while (TakeChanges()) {
      const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
      for (int i = 0; i < count; ++i) Handle(events[static_cast<size_t>(i)].data.fd);
    }
  }

 private:
  struct Route {
    Fd listener;
    Address address;
    uint64_t id = 0;
    size_t open = 0;  // number of open connections
  };

  bool Watch(int action, int fd, uint32_t events) const {
    epoll_event event{};
    event.events = events;
    event.data.fd = fd;
    return epoll_ctl(epoll_.get(), action, fd, &event) == 0;
  }

  void Wake() const {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t wrote = write(wake_.get(), &one, sizeof(one));
  }

  bool TakeChanges() {
    std::vector<std::function<void()>> changes;
    {
      base::MutexLock lock(mu_);
      if (stops_) return false;
      changes.swap(changes_);
    }
    for (const auto& change : changes) change();
    return true;
  }

  void Handle(int fd) {
    if (fd == wake_.get()) {
      uint64_t count;
      [[maybe_unused]] const ssize_t got = read(fd, &count, sizeof(count));
    } else if (const auto route = routes_.find(fd); route != routes_.end()) {
      Accept(route->second);
    } else if (const auto pair = pairs_.find(fd); pair != pairs_.end()) {
      Pump(pair->second);
    }
  }

  void Accept(Route& route) {
    while (route.open < kMaxConnections) {
      Fd inner(accept4(route.listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!inner.valid()) return;
      Fd outer(socket(route.address.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      if (!outer.valid()) continue;
      const int begun =
          connect(outer.get(), reinterpret_cast<const sockaddr*>(&route.address.address), route.address.size);
      if (begun != 0 && errno != EINPROGRESS) continue;  // the client's connection is closed
      auto pair = std::make_shared<Pair>();
      pair->ends = {std::move(inner), std::move(outer)};
      pair->listener = route.id;
      ++route.open;
      for (const Fd& end : pair->ends) {
        pairs_[end.get()] = pair;
        Watch(EPOLL_CTL_ADD, end.get(), 0);
      }
      Pump(pair);
    }
    Watch(EPOLL_CTL_MOD, route.listener.get(), 0);  // until a connection ends
  }

  void Drop(const Pair& pair) {
    for (const Fd& end : pair.ends) pairs_.erase(end.get());
    const auto fd = listeners_.find(pair.listener);
    if (fd == listeners_.end()) return;
    Route& route = routes_.at(fd->second);
    if (route.open-- == kMaxConnections) Watch(EPOLL_CTL_MOD, fd->second, EPOLLIN);
  }

  // Passed by value because the pair may be removed from the map.
  void Pump(std::shared_ptr<Pair> pair) {
    bool broken = false;
    if (pair->connecting) {
      int error = 0;
      socklen_t size = sizeof(error);
      getsockopt(pair->ends[1].get(), SOL_SOCKET, SO_ERROR, &error, &size);
      sockaddr_storage peer;
      size = sizeof(peer);
      const bool connected = getpeername(pair->ends[1].get(), reinterpret_cast<sockaddr*>(&peer), &size) == 0;
      broken = error != 0;
      pair->connecting = !broken && !connected;
    }
    for (size_t from = 0; from < 2 && !broken && !pair->connecting; ++from) broken = !Move(*pair, from);
    const bool over = pair->flows[0].passed_on && pair->flows[1].passed_on;
    if (broken || over) {
      Drop(*pair);
      return;
    }
    for (size_t side = 0; side < 2; ++side) {
      uint32_t events = 0;
      if (pair->flows[side].bytes.empty() && !pair->flows[side].ended) events |= EPOLLIN;
      if (!pair->flows[1 - side].bytes.empty() || (side == 1 && pair->connecting)) events |= EPOLLOUT;
      if (events != pair->events[side]) Watch(EPOLL_CTL_MOD, pair->ends[side].get(), events);
      pair->events[side] = events;
    }
  }

  // Returns false if the connection is broken.
  bool Move(Pair& pair, size_t from) {
    Flow& flow = pair.flows[from];
    const int in = pair.ends[from].get(), out = pair.ends[1 - from].get();
    while (true) {
      while (!flow.bytes.empty()) {
        const ssize_t sent = send(out, flow.bytes.data(), flow.bytes.size(), MSG_NOSIGNAL);
        if (sent < 0) return errno == EAGAIN || errno == EINTR;
        flow.bytes.erase(0, static_cast<size_t>(sent));
      }
      if (flow.ended) {
        if (!flow.passed_on) shutdown(out, SHUT_WR);
        flow.passed_on = true;
        return true;
      }
      flow.bytes.resize(kBuffer);
      const ssize_t got = recv(in, flow.bytes.data(), kBuffer, 0);
      flow.bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
      if (got < 0) return errno == EAGAIN || errno == EINTR;
      flow.ended = got == 0;
    }
  }

  const Fd epoll_, wake_;
  base::Mutex mu_;
  bool stops_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t next_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<std::function<void()>> changes_ ABSL_GUARDED_BY(mu_);
  // Used only by the loop's thread.
  std::map<uint64_t, int> listeners_;
  std::map<int, Route> routes_;
  std::map<int, std::shared_ptr<Pair>> pairs_;  // by both ends
};

Relay::Relay() : loop_(std::make_unique<Loop>()) {}

absl::StatusOr<std::shared_ptr<Relay>> Relay::Start() {
  std::shared_ptr<Relay> relay(new Relay);
  if (!relay->loop_->valid()) return ErrnoStatus(errno, "cannot create the sandboxes' relay");
  relay->thread_ = std::thread([loop = relay->loop_.get()] { loop->Run(); });
  return relay;
}

Relay::~Relay() {
  loop_->Stop();
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<std::shared_ptr<void>> Relay::Serve(Fd listener, const std::string& url) {
  const auto split = SplitUrl(url);
  if (!split.has_value()) return absl::InvalidArgumentError(absl::StrCat("'", url, "' is not a valid gateway address"));
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (const int error = getaddrinfo(split->host.c_str(), split->port.c_str(), &hints, &found); error != 0) {
    return absl::UnavailableError(absl::StrCat("cannot resolve the gateway's address ", split->host, ":", split->port,
                                               ": ", gai_strerror(error)));
  }
  Address address;
  std::memcpy(&address.address, found->ai_addr, found->ai_addrlen);
  address.size = found->ai_addrlen;
  freeaddrinfo(found);
  const uint64_t id = loop_->Add(std::move(listener), address);
  return std::shared_ptr<void>(nullptr, [this, id](void*) { loop_->Remove(id); });
}

}  // namespace ingot::sandbox
