#include "http/server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cstring>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "http/connection.h"
#include "http/limits.h"
#include "http/places.h"
#include "http/site_check.h"
#include "http/tls.h"
#include "http/unix_socket.h"

namespace ingot::http {
namespace {

namespace asio = boost::asio;
using asio::generic::stream_protocol;
using asio::ip::tcp;
using boost::system::error_code;

constexpr auto kAcceptPause = std::chrono::milliseconds(100);  // after an error such as too many open files
constexpr auto kCloseWait = std::chrono::seconds(10);
constexpr int kTurnedAway = 64;  // connections beyond max_connections that wait for their 503; included in kOtherFiles

std::vector<std::shared_ptr<Loop>> NewLoops(int count) {
  std::vector<std::shared_ptr<Loop>> loops;
  for (int i = 0; i < count; ++i) loops.push_back(std::make_shared<Loop>(1));  // run by one thread
  return loops;
}

// A socket that accepts connections. Used on the first loop's thread.
struct Listener {
  // `name` identifies a socket that was passed in as a connection source; "" = the server's own socket.
  Listener(Loop& loop, std::string name) : name(std::move(name)), acceptor(loop), pause(loop) {}
  void Close() {
    error_code ignored;
    acceptor.close(ignored);
    pause.cancel();
  }
  const std::string name;
  LoopAcceptor acceptor;
  LoopTimer pause;
};

// Returns a connection's source, which is its address. For IPv6, this is only the first half because one machine may
// own all addresses in the second half.
std::string SourceOf(const LoopSocket& socket) {
  error_code error;
  const stream_protocol::endpoint peer = socket.remote_endpoint(error);
  if (error || (peer.data()->sa_family != AF_INET && peer.data()->sa_family != AF_INET6)) return "";
  tcp::endpoint address;
  std::memcpy(address.data(), peer.data(), std::min(address.capacity(), peer.size()));
  if (address.address().is_v4()) return address.address().to_string();
  const asio::ip::address_v6 v6 = address.address().to_v6();
  const auto bytes = v6.to_bytes();
  return "v6 " + std::string(bytes.begin(), v6.is_v4_mapped() ? bytes.end() : bytes.begin() + bytes.size() / 2);
}

}  // namespace

class Server::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(const Options& options, Handler& handler)
      : options_(options),
        handler_(handler),
        bodies_(options.max_buffered_bytes),
        site_(options_),
        loops_(NewLoops(options.io_threads)),
        own_(std::make_shared<Listener>(*loops_[0], "")) {
    for (const auto& loop : loops_) work_.push_back(asio::make_work_guard(*loop));
  }

  absl::Status Listen() {
    INGOT_RETURN_IF_ERROR(ReserveFiles());
    places_.emplace(max_connections_);
    if (!options_.tls_certificate.empty()) {
      INGOT_ASSIGN_OR_RETURN(tls_, NewTlsContext(options_.tls_certificate, options_.tls_key));
    }
    shared_ = std::make_unique<const ServerShared>(ServerShared{options_, handler_, bodies_, site_, tls_.get()});
    return options_.unix_socket.empty() ? ListenAt() : ListenFile();
  }

  void Serve() {
    asio::co_spawn(*loops_[0], Accept(shared_from_this(), own_), asio::detached);
    for (const auto& loop : loops_) threads_.emplace_back([loop] { loop->run(); });
  }

  void Every(std::chrono::milliseconds period, std::function<void()> job) {
    asio::co_spawn(*loops_[0], Repeat(shared_from_this(), period, std::move(job)), asio::detached);
  }

  absl::StatusOr<std::shared_ptr<void>> AcceptOn(int fd, bool is_v6) {
    auto listener = std::make_shared<Listener>(*loops_[0], absl::StrCat("socket ", ++sockets_));
    error_code error;
    listener->acceptor.assign(is_v6 ? tcp::v6() : tcp::v4(), fd, error);
    if (error) close(fd);
    if (error) return absl::InvalidArgumentError(absl::StrCat("cannot accept on the socket: ", error.message()));
    asio::post(*loops_[0], [self = shared_from_this(), listener] {
      self->listeners_.insert(listener);
      asio::co_spawn(*self->loops_[0], Accept(self, listener), asio::detached);
    });
    return std::shared_ptr<void>(nullptr, [weak = weak_from_this(), listener](void*) {
      const std::shared_ptr<Impl> self = weak.lock();
      if (self == nullptr || self->IsStopped()) return;  // Stop closes it in that case
      asio::post(*self->loops_[0], [self, listener] {
        listener->Close();
        self->listeners_.erase(listener);
      });
    });
  }

  void Stop() {
    {
      base::MutexLock lock(mu_);
      if (stopped_) return;
      stopped_ = true;  // no connections enter after this
    }
    if (threads_.empty()) {  // Serve was not called
      CloseAcceptor();
      return;
    }
    asio::post(*loops_[0], [self = shared_from_this()] {
      self->CloseAcceptor();
      for (const auto& listener : self->listeners_) listener->Close();
      self->listeners_.clear();
      for (LoopTimer* timer : self->repeats_) timer->cancel();
    });
    {
      base::MutexLock lock(mu_);
      for (const auto& connection : connections_) connection->Finish();
    }
    const auto grace = std::chrono::nanoseconds(static_cast<int64_t>(options_.shutdown_grace_s * 1e9));
    if (!WaitForConnections(grace)) {
      {
        base::MutexLock lock(mu_);
        for (const auto& connection : connections_) connection->Close();
      }
      if (!WaitForConnections(kCloseWait)) INGOT_LOG(error, "http: connections still open at shutdown");
    }
    work_.clear();
    for (std::thread& thread : threads_) thread.join();
  }

  int port() const { return port_; }
  std::string url() const {
    if (!options_.unix_socket.empty()) return absl::StrCat("unix:", options_.unix_socket);
    const bool v6 = options_.host.find(':') != std::string::npos;
    return absl::StrCat(tls_ != nullptr ? "https://" : "http://", v6 ? "[" : "", options_.host, v6 ? "]" : "", ":",
                        port_);
  }
  int connections() const {
    base::MutexLock lock(mu_);
    return connections_.size();
  }

 private:
  absl::Status ListenFile() {
    INGOT_ASSIGN_OR_RETURN(const int fd, ListenUnix(options_.unix_socket));
    error_code error;
    own_->acceptor.assign(stream_protocol(AF_UNIX, 0), fd, error);
    if (!error) return absl::OkStatus();
    close(fd);
    return absl::UnavailableError(absl::StrCat("cannot listen on ", options_.unix_socket, ": ", error.message()));
  }

  absl::Status ListenAt() {
    const std::string where = absl::StrCat(options_.host, ":", options_.port);
    const auto fail = [&](const error_code& error) {
      const bool taken = error == asio::error::address_in_use;
      return absl::UnavailableError(absl::StrCat(
          "cannot listen on ", where, ": ", error.message(),
          taken ? "; stop the process that listens there, or choose another port (0: any free port)" : ""));
    };
    INGOT_RETURN_IF_ERROR(CheckHost(options_));
    error_code error;
    const auto address = asio::ip::make_address(options_.host);
    const tcp::endpoint endpoint(address, static_cast<uint16_t>(options_.port));
    if (own_->acceptor.open(stream_protocol(endpoint.protocol()), error); error) return fail(error);
    if (own_->acceptor.set_option(asio::socket_base::reuse_address(true), error); error) return fail(error);
    if (own_->acceptor.bind(endpoint, error); error) return fail(error);
    if (own_->acceptor.listen(asio::socket_base::max_listen_connections, error); error) return fail(error);
    const stream_protocol::endpoint listened = own_->acceptor.local_endpoint(error);
    tcp::endpoint bound;
    std::memcpy(bound.data(), listened.data(), std::min(bound.capacity(), listened.size()));
    port_ = bound.port();
    return absl::OkStatus();
  }

  void CloseAcceptor() {
    own_->Close();
    if (!options_.unix_socket.empty()) unlink(options_.unix_socket.c_str());
  }

  absl::Status ReserveFiles() {
    max_connections_ = options_.max_connections;
    if (max_connections_ > 0) return RaiseFileLimit(max_connections_);
    const uint64_t files = HardFileLimit();
    max_connections_ = ConnectionsWithin(files);
    if (max_connections_ < kMaxConnections) {
      INGOT_LOG(info, "http: at most {} connections at a time, because this process may open {} files (ulimit -Hn)",
                max_connections_, files);
    }
    const uint64_t others = std::min<uint64_t>(kOtherFiles, files - static_cast<uint64_t>(max_connections_));
    return RaiseFileLimit(max_connections_ - kOtherFiles + static_cast<int64_t>(others));
  }

  bool IsStopped() const {
    base::MutexLock lock(mu_);
    return stopped_;
  }

  bool WaitForConnections(std::chrono::nanoseconds timeout) {
    const base::Clock& clock = base::Clock::Real();  // the same clock that the loop timers use
    const std::chrono::nanoseconds deadline = clock.Now() + timeout;
    base::MutexLock lock(mu_);
    while (!connections_.empty()) {
      if (!clock.WaitUntil(changed_, mu_, deadline)) return connections_.empty();
    }
    return true;
  }

  // Returns null if the server is full or stopping.
  std::shared_ptr<Place> Enter(const std::shared_ptr<Connection>& connection, const std::string& source, int most) {
    base::MutexLock lock(mu_);
    if (stopped_) return nullptr;
    auto place = places_->Enter(source, most, [weak = std::weak_ptr<Connection>(connection)] {
      if (const auto evicted = weak.lock()) evicted->Close();
    });
    if (place != nullptr) connections_.insert(connection);
    return place;
  }
  void Leave(const std::shared_ptr<Connection>& connection) {
    base::MutexLock lock(mu_);
    connections_.erase(connection);
    changed_.SignalAll();
  }
  // Returns true if the server can keep a connection without a place until it gets a 503. If so, the connection is
  // added to connections_.
  bool BeginRejection(const std::shared_ptr<Connection>& connection) {
    base::MutexLock lock(mu_);
    if (stopped_ || turned_away_ >= kTurnedAway) return false;
    ++turned_away_;
    connections_.insert(connection);
    return true;
  }
  void EndRejection(const std::shared_ptr<Connection>& connection) {
    base::MutexLock lock(mu_);
    --turned_away_;
    connections_.erase(connection);
    changed_.SignalAll();
  }

  static LoopTask<void> Accept(std::shared_ptr<Impl> self, std::shared_ptr<Listener> listener) {
    while (listener->acceptor.is_open()) {
      const std::shared_ptr<Loop>& loop = self->loops_[self->next_loop_++ % self->loops_.size()];
      auto [error, socket] = co_await listener->acceptor.async_accept(loop->get_executor(), kAwaitTuple);
      if (!listener->acceptor.is_open()) co_return;
      if (error) {
        INGOT_LOG(warn, "a connection could not be accepted: {}", error.message());
        listener->pause.expires_after(kAcceptPause);
        co_await listener->pause.async_wait(kAwaitTuple);
        continue;
      }
      self->Serve(loop, std::move(socket), *listener);
    }
  }

  void Serve(const std::shared_ptr<Loop>& loop, LoopSocket socket, const Listener& listener) {
    const bool is_own = listener.name.empty();
    const std::string source = is_own ? SourceOf(socket) : listener.name;
    auto connection = std::make_shared<Connection>(loop, std::move(socket), *shared_);
    auto place = Enter(connection, source, is_own ? 0 : places_->share());
    asio::co_spawn(*loop, Hold(shared_from_this(), connection, std::move(place)), asio::detached);
  }

  static LoopTask<void> Hold(std::shared_ptr<Impl> self, std::shared_ptr<Connection> connection,
                             std::shared_ptr<Place> place) {
    if (place != nullptr) {
      co_await connection->Run(place);
      self->places_->Leave(place);
      self->Leave(connection);
      co_return;
    }
    Rejection why{503, "too_many_connections", "the server already has max_connections open connections"};
    if (self->BeginRejection(connection)) {
      co_await connection->RejectAndClose(std::move(why));
      self->EndRejection(connection);
    } else {
      connection->Drop(why);
    }
  }

  static LoopTask<void> Repeat(std::shared_ptr<Impl> self, std::chrono::milliseconds period,
                               std::function<void()> job) {
    LoopTimer timer(*self->loops_[0]);
    self->repeats_.insert(&timer);
    while (self->own_->acceptor.is_open()) {
      job();
      timer.expires_after(period);
      co_await timer.async_wait(kAwaitTuple);
    }
    self->repeats_.erase(&timer);
  }

  const Options options_;
  Handler& handler_;
  BodyBudget bodies_;
  const SiteCheck site_;
  int32_t max_connections_ = 0;              // constant once it listens
  std::optional<Places> places_;             // constant once it listens
  std::atomic<int> sockets_{0};              // sockets passed in so far
  std::unique_ptr<asio::ssl::context> tls_;  // null = plaintext
  std::unique_ptr<const ServerShared> shared_;
  // One per thread. They share no state. The first one accepts connections for all of them in turn.
  const std::vector<std::shared_ptr<Loop>> loops_;
  std::vector<asio::executor_work_guard<LoopExecutor>> work_;
  const std::shared_ptr<Listener> own_;
  std::set<std::shared_ptr<Listener>>
      listeners_;  // created by AcceptOn; like next_loop_, used on the first loop's thread
  size_t next_loop_ = 0;
  std::set<LoopTimer*> repeats_;  // created by Every; used on the first loop's thread
  int port_ = 0;
  std::vector<std::thread> threads_;

  mutable base::Mutex mu_;
  base::CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::set<std::shared_ptr<Connection>> connections_ ABSL_GUARDED_BY(mu_);
  int turned_away_ ABSL_GUARDED_BY(mu_) = 0;  // how many of them are in connections_
};

Server::Server(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

absl::Status CheckHost(const Options& options) {
  error_code error;
  const auto address = asio::ip::make_address(options.host, error);
  if (error) return absl::InvalidArgumentError(absl::StrCat("host '", options.host, "' is not an IP address"));
  if (address.is_loopback() || !options.tls_certificate.empty() || options.allow_plaintext) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("host ", options.host,
                   " is reachable from other machines, and without TLS anyone on the network path can read the "
                   "traffic: set tls_certificate and tls_key, or allow_plaintext if the network is private"));
}

absl::StatusOr<std::unique_ptr<Server>> Server::Listen(const Options& options, Handler& handler) {
  INGOT_RETURN_IF_ERROR(base::Annotate(options.Validate(), "http"));
  auto impl = std::make_shared<Impl>(options, handler);
  INGOT_RETURN_IF_ERROR(impl->Listen());
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::~Server() { Stop(); }
void Server::Serve() { impl_->Serve(); }
void Server::Every(std::chrono::milliseconds period, std::function<void()> job) {
  impl_->Every(period, std::move(job));
}
absl::StatusOr<std::shared_ptr<void>> Server::AcceptOn(int listening_socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  int listens = 0;
  socklen_t flag_size = sizeof(listens);
  const bool is_there = getsockname(listening_socket, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
                        getsockopt(listening_socket, SOL_SOCKET, SO_ACCEPTCONN, &listens, &flag_size) == 0;
  if (is_there && listens != 0 && (address.ss_family == AF_INET || address.ss_family == AF_INET6)) {
    return impl_->AcceptOn(listening_socket, address.ss_family == AF_INET6);
  }
  close(listening_socket);
  return absl::InvalidArgumentError("not a listening TCP socket");
}
void Server::Stop() { impl_->Stop(); }
int Server::port() const { return impl_->port(); }
std::string Server::url() const { return impl_->url(); }
int Server::connections() const { return impl_->connections(); }

}  // namespace ingot::http
