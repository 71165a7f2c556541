#include "sandbox/egress/egress_proxy.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <utility>

#include "sandbox/egress/egress_head.h"

namespace ingot::sandbox {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr size_t kMaxConnections = 64;
constexpr size_t kMaxHead = 16 * 1024;
constexpr size_t kMaxNoted = 16;
constexpr size_t kMaxAddresses = 4;  // addresses to try per host
constexpr size_t kBuffer = 64 * 1024;
constexpr std::chrono::seconds kHeadTimeout(30), kLookupTimeout(20), kConnectTimeout(20), kIdleTimeout(300);

// Waits for `events` on a socket. Returns false on timeout or if the proxy stops.
bool Await(int fd, short events, const Cancellation& stop, SteadyClock::time_point end) {
  pollfd fds[2] = {{fd, events, 0}, {stop.fd(), POLLIN, 0}};
  while (!stop.cancelled()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - SteadyClock::now()).count();
    if (left <= 0) return false;
    const int ready = poll(fds, 2, static_cast<int>(left));
    if (ready < 0 && errno != EINTR) return false;
    if (ready > 0 && fds[0].revents != 0) return !stop.cancelled();
  }
  return false;
}

bool SendAll(int fd, std::string_view bytes, const Cancellation& stop) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (sent < 0 && (errno == EAGAIN || errno == EINTR)) {
      if (!Await(fd, POLLOUT, stop, SteadyClock::now() + kIdleTimeout)) return false;
    } else {
      return false;
    }
  }
  return true;
}

// Returns the head, and sets `rest` to the bytes that follow it. Returns "" if no head arrives in time or it is too
// long.
std::string ReadHead(int fd, const Cancellation& stop, std::string& rest) {
  const auto end = SteadyClock::now() + kHeadTimeout;
  std::string text;
  std::array<char, 4096> buffer;
  while (text.size() <= kMaxHead && Await(fd, POLLIN, stop, end)) {
    const ssize_t got = recv(fd, buffer.data(), buffer.size(), 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return "";
    if (got < 0) continue;
    text.append(buffer.data(), static_cast<size_t>(got));
    const size_t empty = text.find("\r\n\r\n");
    if (empty == std::string::npos) continue;
    rest = text.substr(empty + 4);
    text.resize(empty + 4);
    return text;
  }
  return "";
}

// Moves available bytes from one socket to another. Returns false if the first has ended or either has failed.
bool Move(int from, int to, const Cancellation& stop, std::vector<char>& buffer) {
  const ssize_t got = recv(from, buffer.data(), buffer.size(), 0);
  if (got > 0) return SendAll(to, {buffer.data(), static_cast<size_t>(got)}, stop);
  return got < 0 && (errno == EAGAIN || errno == EINTR);
}

// Transfers bytes until both directions have ended. `one_way`: true = transfer only the host's bytes, and drop the
// client's.
void Carry(int client, int host, bool one_way, const Cancellation& stop) {
  std::vector<char> buffer(kBuffer);
  pollfd fds[3] = {{host, POLLIN, 0}, {one_way ? -1 : client, POLLIN, 0}, {stop.fd(), POLLIN, 0}};
  const int other[2] = {client, host};
  while (fds[0].fd >= 0 && !stop.cancelled()) {
    const int ready = poll(fds, 3, static_cast<int>(std::chrono::milliseconds(kIdleTimeout).count()));
    if (ready == 0 || (ready < 0 && errno != EINTR)) return;
    for (int i = 0; i < 2 && ready > 0; ++i) {
      if (fds[i].fd < 0 || fds[i].revents == 0 || Move(fds[i].fd, other[i], stop, buffer)) continue;
      shutdown(other[i], SHUT_WR);
      fds[i].fd = -1;  // poll ignores it
    }
  }
}

struct Lookup {
  Fd done{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::atomic<bool> has_ended{false};
  int error = 0;
  std::vector<std::pair<sockaddr_storage, socklen_t>> addresses;
};

void LookUp(const HostPort& host, Lookup& lookup) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  lookup.error = getaddrinfo(host.host.c_str(), absl::StrCat(host.port).c_str(), &hints, &found);
  for (const addrinfo* each = found; each != nullptr && lookup.addresses.size() < kMaxAddresses; each = each->ai_next) {
    sockaddr_storage address{};
    std::memcpy(&address, each->ai_addr, each->ai_addrlen);
    lookup.addresses.emplace_back(address, each->ai_addrlen);
  }
  if (found != nullptr) freeaddrinfo(found);
  lookup.has_ended = true;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t wrote = write(lookup.done.get(), &one, sizeof(one));
}

// Returns a host's addresses. The system's lookup cannot be canceled, so its thread is abandoned when the proxy stops
// or at the deadline.
absl::StatusOr<std::shared_ptr<const Lookup>> AddressesOf(const HostPort& host, const Cancellation& stop) {
  const auto lookup = std::make_shared<Lookup>();
  try {
    std::thread([host, lookup] { LookUp(host, *lookup); }).detach();
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot start a thread to look up ", host.host));
  }
  Await(lookup->done.get(), POLLIN, stop, SteadyClock::now() + kLookupTimeout);
  if (!lookup->has_ended) return absl::UnavailableError(absl::StrCat("the lookup of ", host.host, " timed out"));
  if (lookup->error != 0)
    return absl::UnavailableError(absl::StrCat("cannot find ", host.host, ": ", gai_strerror(lookup->error)));
  return lookup;
}

absl::StatusOr<Fd> ConnectTo(const sockaddr_storage& address, socklen_t size, const Cancellation& stop) {
  Fd fd(socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot create a socket");
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0) return fd;
  if (errno != EINPROGRESS) return ErrnoStatus(errno, "cannot connect");
  if (!Await(fd.get(), POLLOUT, stop, SteadyClock::now() + kConnectTimeout))
    return absl::UnavailableError("no connection within 20 s");
  int error = 0;
  socklen_t length = sizeof(error);
  getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  return error == 0 ? absl::StatusOr<Fd>(std::move(fd)) : ErrnoStatus(error, "cannot connect");
}

void Note(const std::string& what, std::vector<std::string>& notes) {
  if (notes.size() < kMaxNoted && std::find(notes.begin(), notes.end(), what) == notes.end()) notes.push_back(what);
}

std::string ReplyOf(const absl::Status& status) {
  const char* line = "502 Bad Gateway";
  if (absl::IsPermissionDenied(status)) line = "403 Forbidden";
  if (absl::IsInvalidArgument(status)) line = "400 Bad Request";
  if (absl::IsUnimplemented(status)) line = "405 Method Not Allowed";
  const std::string text = absl::StrCat("ingot: ", status.message(), "\n");
  return absl::StrCat("HTTP/1.1 ", line, "\r\nContent-Type: text/plain\r\nContent-Length: ", text.size(),
                      "\r\nConnection: close\r\n\r\n", text);
}

}  // namespace

absl::StatusOr<std::unique_ptr<EgressProxy>> EgressProxy::Start(Fd listener, EgressList hosts) {
  std::unique_ptr<EgressProxy> proxy(new EgressProxy(std::move(listener), std::move(hosts)));
  fcntl(proxy->listener_.get(), F_SETFL, O_NONBLOCK);
  try {
    proxy->accepting_ = std::thread([raw = proxy.get()] { raw->Accept(); });
  } catch (const std::system_error& error) {
    return absl::UnavailableError(absl::StrCat("cannot start a build's proxy: ", error.what()));
  }
  return proxy;
}

EgressProxy::~EgressProxy() {
  stop_.Cancel();
  if (accepting_.joinable()) accepting_.join();
  std::map<uint64_t, std::thread> left;
  {
    base::MutexLock lock(mu_);
    left.swap(serving_);
  }
  for (auto& [number, thread] : left) thread.join();
}

std::vector<std::string> EgressProxy::Rejected() const {
  base::MutexLock lock(mu_);
  return rejected_;
}

std::vector<std::string> EgressProxy::Unreached() const {
  base::MutexLock lock(mu_);
  return unreached_;
}

void EgressProxy::JoinEnded() {
  std::vector<std::thread> ended;
  {
    base::MutexLock lock(mu_);
    for (const uint64_t number : std::exchange(done_, {}))
      ended.push_back(std::move(serving_.extract(number).mapped()));
  }
  for (std::thread& thread : ended) thread.join();
}

void EgressProxy::Accept() {
  constexpr std::chrono::milliseconds kPause(100);
  for (uint64_t number = 0; !stop_.cancelled(); ++number) {
    JoinEnded();
    const bool is_full = [this] {
      base::MutexLock lock(mu_);
      return serving_.size() >= kMaxConnections;
    }();
    // With all connections taken, more wait in the socket's queue. The stop wakes this thread.
    if (is_full) {
      ++pauses_;
      Await(stop_.fd(), POLLIN, stop_, SteadyClock::now() + kPause);
      continue;
    }
    if (!Await(listener_.get(), POLLIN, stop_, SteadyClock::now() + kPause)) continue;
    auto client = std::make_shared<Fd>(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!client->valid()) continue;
    base::MutexLock lock(mu_);
    try {
      serving_.emplace(number, std::thread([this, number, client] {
                         Serve(*client);
                         base::MutexLock ending(mu_);
                         done_.push_back(number);
                       }));
    } catch (const std::system_error& error) {
      continue;  // the client's connection is closed
    }
  }
}

absl::Status EgressProxy::Reject(const std::string& what) {
  base::MutexLock lock(mu_);
  Note(what, rejected_);
  return absl::PermissionDeniedError(absl::StrCat(
      what, " cannot be reached from builds; to allow it, add it to agents.image_build_hosts (--build-host)"));
}

absl::StatusOr<Fd> EgressProxy::Connect(const HostPort& host) {
  const EgressList::Match match = hosts_.Find(host);
  if (match == EgressList::Match::kNone) return Reject(Text(host));
  absl::StatusOr<Fd> connected = ConnectListed(match, host);
  if (connected.ok() || absl::IsPermissionDenied(connected.status())) return connected;
  base::MutexLock lock(mu_);
  Note(absl::StrCat(Text(host), " (", connected.status().message(), ")"), unreached_);
  return connected;
}

absl::StatusOr<Fd> EgressProxy::ConnectListed(EgressList::Match match, const HostPort& host) {
  INGOT_ASSIGN_OR_RETURN(const auto lookup, AddressesOf(host, stop_));
  absl::Status failed = absl::UnavailableError("it has no address");
  for (const auto& [address, size] : lookup->addresses) {
    // Connects to the address that was checked, because a second lookup could return a different one.
    if (!EgressList::MayReach(match, host, reinterpret_cast<const sockaddr&>(address))) {
      failed = Reject(
          absl::StrCat(Text(host), match == EgressList::Match::kBelow
                                       ? " (an address of this machine or its network: list the host explicitly)"
                                       : " (an address of this machine or its link: list the address explicitly)"));
      continue;
    }
    absl::StatusOr<Fd> connected = ConnectTo(address, size, stop_);
    if (connected.ok()) return connected;
    failed = absl::UnavailableError(connected.status().message());
  }
  return failed;
}

void EgressProxy::Serve(const Fd& client) {
  std::string rest;
  const std::string head = ReadHead(client.get(), stop_, rest);
  if (head.empty()) return;
  const auto request = ParseEgressHead(head);
  absl::StatusOr<Fd> host = request.ok() ? Connect(request->host) : absl::StatusOr<Fd>(request.status());
  if (!host.ok()) {
    SendAll(client.get(), ReplyOf(host.status()), stop_);
    shutdown(client.get(), SHUT_WR);
    return;
  }
  const bool sent = request->is_tunnel ? SendAll(client.get(), "HTTP/1.1 200 Connection established\r\n\r\n", stop_) &&
                                             SendAll(host->get(), rest, stop_)
                                       : SendAll(host->get(), request->head, stop_);
  if (sent) Carry(client.get(), host->get(), !request->is_tunnel, stop_);
}

}  // namespace ingot::sandbox
