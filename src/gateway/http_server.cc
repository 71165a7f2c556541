#include "gateway/http_server.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "gateway/api/api_error.h"
#include "gateway/http_connection.h"
#include "gateway/system_limits.h"
#include "gateway/tls.h"

namespace ingot::gateway {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr auto kTick = std::chrono::seconds(1);
constexpr auto kAcceptPause = std::chrono::milliseconds(100);  // after an error such as too many open files
constexpr auto kCloseWait = std::chrono::seconds(10);

std::vector<std::shared_ptr<HttpLoop>> NewLoops(int count) {
  std::vector<std::shared_ptr<HttpLoop>> loops;
  for (int i = 0; i < count; ++i) loops.push_back(std::make_shared<HttpLoop>(1));  // run by one thread
  return loops;
}

}  // namespace

class HttpServer::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(const HttpServerOptions& options, Gateway& gateway, std::function<std::string()> metrics)
      : options_(options),
        gateway_(gateway),
        api_(gateway, std::move(metrics)),
        bodies_(options.max_buffered_bytes),
        loops_(NewLoops(options.io_threads)),
        acceptor_(*loops_[0]),
        pause_(*loops_[0]),
        tick_(*loops_[0]) {
    for (const auto& loop : loops_) work_.push_back(asio::make_work_guard(*loop));
  }

  absl::Status Listen() {
    INGOT_RETURN_IF_ERROR(RaiseFileLimit(options_.max_connections));
    if (!options_.tls_certificate.empty()) {
      INGOT_ASSIGN_OR_RETURN(tls_, NewTlsContext(options_.tls_certificate, options_.tls_key));
    }
    shared_ = std::make_unique<const HttpShared>(HttpShared{options_, api_, bodies_, tls_.get()});
    const std::string where = absl::StrCat(options_.host, ":", options_.port);
    const auto fail = [&](const error_code& error) {
      const bool taken = error == asio::error::address_in_use;
      return absl::UnavailableError(
          absl::StrCat("cannot listen on ", where, ": ", error.message(),
                       taken ? "; stop what listens there, or choose another port (0: any free one)" : ""));
    };
    error_code error;
    const auto address = asio::ip::make_address(options_.host, error);
    if (error) return absl::InvalidArgumentError(absl::StrCat("host '", options_.host, "' is not an IP address"));
    if (!address.is_loopback() && tls_ == nullptr && !options_.allow_plaintext) {
      return absl::FailedPreconditionError(absl::StrCat(
          "host ", options_.host,
          " is reached from other machines, and without TLS all on the way can read the keys and "
          "prompts that go there: name a certificate and key (gateway.tls.certificate, gateway.tls.key), or say that "
          "the network is private (gateway.tls.allow_plaintext: true)"));
    }
    const tcp::endpoint endpoint(address, static_cast<uint16_t>(options_.port));
    if (acceptor_.open(endpoint.protocol(), error); error) return fail(error);
    if (acceptor_.set_option(asio::socket_base::reuse_address(true), error); error) return fail(error);
    if (acceptor_.bind(endpoint, error); error) return fail(error);
    if (acceptor_.listen(asio::socket_base::max_listen_connections, error); error) return fail(error);
    port_ = acceptor_.local_endpoint(error).port();
    return absl::OkStatus();
  }

  void Run() {
    asio::co_spawn(*loops_[0], Accept(shared_from_this()), asio::detached);
    asio::co_spawn(*loops_[0], Tick(shared_from_this()), asio::detached);
    for (const auto& loop : loops_) threads_.emplace_back([loop] { loop->run(); });
  }

  void Stop() {
    {
      base::MutexLock lock(mu_);
      if (stopped_) return;
      stopped_ = true;  // nobody enters any more
    }
    asio::post(*loops_[0], [self = shared_from_this()] {
      error_code ignored;
      self->acceptor_.close(ignored);
      self->pause_.cancel();
      self->tick_.cancel();
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
      if (!WaitForConnections(kCloseWait)) INGOT_LOG(error, "connections do not close");
    }
    work_.clear();
    for (std::thread& thread : threads_) thread.join();
  }

  int port() const { return port_; }
  std::string url() const {
    const bool v6 = options_.host.find(':') != std::string::npos;
    return absl::StrCat(tls_ != nullptr ? "https://" : "http://", v6 ? "[" : "", options_.host, v6 ? "]" : "", ":",
                        port_);
  }
  int connections() const {
    base::MutexLock lock(mu_);
    return connections_.size();
  }

 private:
  bool WaitForConnections(std::chrono::nanoseconds timeout) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    base::MutexLock lock(mu_);
    while (!connections_.empty()) {
      const auto left = deadline - std::chrono::steady_clock::now();
      if (left.count() <= 0) return false;
      changed_.WaitFor(mu_, left);
    }
    return true;
  }

  // False if the server is full or stopping.
  bool Enter(const std::shared_ptr<HttpConnection>& connection) {
    base::MutexLock lock(mu_);
    if (stopped_ || static_cast<int>(connections_.size()) >= options_.max_connections) return false;
    connections_.insert(connection);
    return true;
  }
  void Leave(const std::shared_ptr<HttpConnection>& connection) {
    base::MutexLock lock(mu_);
    connections_.erase(connection);
    changed_.SignalAll();
  }

  static LoopTask<void> Accept(std::shared_ptr<Impl> self) {
    size_t next = 0;
    while (self->acceptor_.is_open()) {
      const std::shared_ptr<HttpLoop>& loop = self->loops_[next++ % self->loops_.size()];
      auto [error, socket] = co_await self->acceptor_.async_accept(loop->get_executor(), kAwaitTuple);
      if (!self->acceptor_.is_open()) co_return;
      if (error) {
        INGOT_LOG(warn, "a connection could not be accepted: {}", error.message());
        self->pause_.expires_after(kAcceptPause);
        co_await self->pause_.async_wait(kAwaitTuple);
        continue;
      }
      self->Serve(loop, std::move(socket));
    }
  }

  void Serve(const std::shared_ptr<HttpLoop>& loop, LoopSocket socket) {
    auto connection = std::make_shared<HttpConnection>(loop, std::move(socket), *shared_);
    asio::co_spawn(*loop, Hold(shared_from_this(), connection), asio::detached);
  }

  static LoopTask<void> Hold(std::shared_ptr<Impl> self, std::shared_ptr<HttpConnection> connection) {
    if (self->Enter(connection)) {
      co_await connection->Run();
      self->Leave(connection);
    } else {
      connection->TurnAway(ApiError(503, "too_many_connections", "", "the gateway has max_connections open ones"));
    }
  }

  static LoopTask<void> Tick(std::shared_ptr<Impl> self) {
    while (self->acceptor_.is_open()) {
      self->gateway_.RunOnWorker([&gateway = self->gateway_] { gateway.Tick(); });
      self->tick_.expires_after(kTick);
      co_await self->tick_.async_wait(kAwaitTuple);
    }
  }

  const HttpServerOptions options_;
  Gateway& gateway_;
  HttpApi api_;
  BodyBudget bodies_;
  std::unique_ptr<asio::ssl::context> tls_;  // null: plain text
  std::unique_ptr<const HttpShared> shared_;
  // One for each thread, which share nothing. The first one's accepts for all of them in turn.
  const std::vector<std::shared_ptr<HttpLoop>> loops_;
  std::vector<asio::executor_work_guard<LoopExecutor>> work_;
  LoopAcceptor acceptor_;
  LoopTimer pause_, tick_;
  int port_ = 0;
  std::vector<std::thread> threads_;

  mutable base::Mutex mu_;
  base::CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::set<std::shared_ptr<HttpConnection>> connections_ ABSL_GUARDED_BY(mu_);
};

HttpServer::HttpServer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const HttpServerOptions& options, Gateway& gateway,
                                                              std::function<std::string()> metrics) {
  INGOT_RETURN_IF_ERROR(base::Annotate(options.Validate(), "gateway"));
  auto impl = std::make_shared<Impl>(options, gateway, std::move(metrics));
  INGOT_RETURN_IF_ERROR(impl->Listen());
  if (gateway.options().public_url.empty()) gateway.SetBaseUrl(impl->url());
  impl->Run();
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::~HttpServer() { Stop(); }
void HttpServer::Stop() { impl_->Stop(); }
int HttpServer::port() const { return impl_->port(); }
std::string HttpServer::url() const { return impl_->url(); }
int HttpServer::connections() const { return impl_->connections(); }

}  // namespace ingot::gateway
