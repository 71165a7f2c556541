#include "app/cluster/load_balancer.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <optional>
#include <set>
#include <utility>

#include "base/log.h"
#include "http/limits.h"

namespace ingot::app {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::chrono::seconds kConnect(2);       // timeout to connect to one gateway
constexpr std::chrono::seconds kTimeout(30);      // how long a client waits for the first gateway to register
constexpr std::chrono::milliseconds kPause(100);  // pause if there is no gateway or no file descriptor
constexpr std::chrono::milliseconds kLook(500);   // interval between checks of the registry
constexpr std::chrono::minutes kSayAgain(10);     // interval between log lines about waiting clients
constexpr size_t kBufferBytes = 32 << 10;
constexpr auto kNever = std::chrono::steady_clock::time_point::max();

auto Into(error_code& error) { return asio::redirect_error(asio::use_awaitable, error); }

// The kernel probes a silent peer after a minute and then every 15 s, four times in total.
void KeepAlive(tcp::socket& socket) {
  error_code ignored;
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  const auto set = [&socket](int option, int value) {
    ::setsockopt(socket.native_handle(), IPPROTO_TCP, option, &value, sizeof(value));
  };
  set(TCP_KEEPIDLE, 60);
  set(TCP_KEEPINTVL, 15);
  set(TCP_KEEPCNT, 4);
}

// Raises the open file limit for the connections. Returns the maximum number of connections: the option or, if it is 0,
// as many as the hard limit allows.
absl::StatusOr<int32_t> MakeRoom(const LoadBalancerOptions& options) {
  if (options.max_connections > 0) {
    INGOT_RETURN_IF_ERROR(http::RaiseFileLimit(int64_t{2} * options.max_connections));
    return options.max_connections;
  }
  const uint64_t files = http::HardFileLimit();
  const int32_t connections = std::max(1, http::ConnectionsWithin(files) / 2);
  const auto needed = static_cast<int64_t>(std::min<uint64_t>(files, 2 * connections + http::kOtherFiles));
  INGOT_RETURN_IF_ERROR(http::RaiseFileLimit(needed - http::kOtherFiles));
  return connections;
}

}  // namespace

class LoadBalancer::Impl final : public std::enable_shared_from_this<Impl> {
 public:
  explicit Impl(LoadBalancerOptions options) : options_(options), acceptor_(io_) {}

  absl::Status Listen(const std::string& host, int port) {
    INGOT_ASSIGN_OR_RETURN(max_connections_, MakeRoom(options_));
    error_code error;
    const auto address = asio::ip::make_address(host, error);
    if (error) return absl::InvalidArgumentError(absl::StrCat("http.host is '", host, "': it must be an IP address"));
    const tcp::endpoint place(address, static_cast<uint16_t>(port));
    acceptor_.open(place.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(place, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (!error) port_ = acceptor_.local_endpoint(error).port();
    if (error)
      return absl::UnavailableError(
          absl::StrCat("http.port: cannot listen on ", host, ":", port, ": ", error.message()));
    asio::co_spawn(io_, Accept(), asio::detached);
    return absl::OkStatus();
  }
  void Run() { io_.run(); }
  void Stop() { io_.stop(); }
  int port() const { return port_; }

  void SetGateways(std::vector<std::string> places) {
    asio::post(io_, [this, places = std::move(places)] {
      places_ = places;
      for (const std::shared_ptr<Pair>& pair : pairs_) {
        if (std::find(places_.begin(), places_.end(), pair->place) == places_.end()) pair->Close();
      }
    });
  }

 private:
  // A client's connection and its connection to a gateway.
  struct Pair {
    Pair(tcp::socket from, std::shared_ptr<int> count)
        : client(std::move(from)),
          gateway(client.get_executor()),
          timer(client.get_executor()),
          open(std::move(count)) {
      ++*open;
    }
    ~Pair() { --*open; }
    Pair(const Pair&) = delete;
    Pair& operator=(const Pair&) = delete;
    void Close() {
      error_code ignored;
      client.close(ignored);
      gateway.close(ignored);
    }
    tcp::socket client, gateway;
    asio::steady_timer timer;
    std::chrono::steady_clock::time_point close_at = kNever;  // time to close, unless the client reads or closes first
    const std::shared_ptr<int> open;                          // number of all pairs
    std::string place;
    int directions = 2;  // number of directions that are being copied
  };

  asio::awaitable<void> Accept() {
    while (true) {
      while (*open_ >= max_connections_) {
        SayFull();
        co_await Sleep();
      }
      error_code error;
      tcp::socket client = co_await acceptor_.async_accept(Into(error));
      if (!error) {
        asio::co_spawn(io_, Serve(std::make_shared<Pair>(std::move(client), open_)), asio::detached);
        continue;
      }
      co_await Sleep();  // no file descriptors left
    }
  }

  void SayFull() {
    const auto now = std::chrono::steady_clock::now();
    if (now < say_full_at_) return;
    say_full_at_ = now + kSayAgain;
    INGOT_LOG(warn, "the load balancer has {} connections, its maximum: further clients wait", max_connections_);
  }

  asio::awaitable<void> Sleep() {
    asio::steady_timer timer(io_, kPause);
    error_code ignored;
    co_await timer.async_wait(Into(ignored));
  }

  asio::awaitable<void> Serve(std::shared_ptr<Pair> pair) {
    const auto end = std::chrono::steady_clock::now() + kTimeout;
    bool connected = co_await Connect(*pair);
    while (!connected && std::chrono::steady_clock::now() < end) {
      co_await Sleep();
      connected = co_await Connect(*pair);
    }
    if (!connected) co_return;
    error_code ignored;
    pair->client.set_option(tcp::no_delay(true), ignored);
    pair->gateway.set_option(tcp::no_delay(true), ignored);
    KeepAlive(pair->client);
    KeepAlive(pair->gateway);
    pairs_.insert(pair);
    asio::co_spawn(io_, Copy(pair, pair->client, pair->gateway), asio::detached);
    co_await Copy(pair, pair->gateway, pair->client);
  }

  // Tries each gateway once, starting with the next one in the rotation.
  asio::awaitable<bool> Connect(Pair& pair) {
    const std::vector<std::string> places = places_;
    const size_t first = next_++;
    for (size_t i = 0; i < places.size(); ++i) {
      pair.place = places[(first + i) % places.size()];
      const size_t colon = pair.place.rfind(':');
      if (colon == std::string::npos) continue;
      tcp::resolver resolver(io_);
      error_code error;
      const auto found =
          co_await resolver.async_resolve(pair.place.substr(0, colon), pair.place.substr(colon + 1), Into(error));
      if (error) continue;
      // A machine that is gone does not answer. The timer closes the socket, which ends the wait.
      asio::steady_timer timer(io_, kConnect);
      const auto waits = std::make_shared<bool>(true);
      timer.async_wait([&pair, waits](const error_code& stopped) {
        error_code ignored;
        if (!stopped && *waits) pair.gateway.close(ignored);
      });
      co_await asio::async_connect(pair.gateway, found, Into(error));
      *waits = false;
      if (!error && pair.gateway.is_open()) co_return true;
      pair.gateway = tcp::socket(io_);
    }
    co_return false;
  }

  // Closes the pair after the client timeout, unless Spare is called first.
  void Expect(const std::shared_ptr<Pair>& pair) {
    pair->close_at = std::chrono::steady_clock::now() + options_.client_timeout;
    pair->timer.expires_at(pair->close_at);
    pair->timer.async_wait([weak = std::weak_ptr<Pair>(pair)](const error_code& stopped) {
      const std::shared_ptr<Pair> late = weak.lock();
      if (!stopped && late != nullptr && late->close_at <= std::chrono::steady_clock::now()) late->Close();
    });
  }
  static void Spare(Pair& pair) {
    pair.close_at = kNever;
    pair.timer.cancel();
  }

  // Copies one direction until it ends. Forwards the end of that direction. An error ends both directions.
  asio::awaitable<void> Copy(std::shared_ptr<Pair> pair, tcp::socket& from, tcp::socket& to) {
    std::array<char, kBufferBytes> buffer;
    error_code error;
    const bool to_client = &to == &pair->client;
    while (true) {
      const size_t bytes = co_await from.async_read_some(asio::buffer(buffer), Into(error));
      if (error) break;
      if (to_client) Expect(pair);
      co_await asio::async_write(to, asio::buffer(buffer.data(), bytes), Into(error));
      if (to_client) Spare(*pair);
      if (error) break;
    }
    error_code ignored;
    if (error == asio::error::eof) {
      to.shutdown(tcp::socket::shutdown_send, ignored);
      if (to_client) Expect(pair);
    } else {
      pair->Close();
    }
    if (--pair->directions > 0) co_return;
    Spare(*pair);
    pairs_.erase(pair);
  }

  const LoadBalancerOptions options_;
  int32_t max_connections_ = 0;  // constant after Listen
  asio::io_context io_{1};
  tcp::acceptor acceptor_;
  int port_ = 0;
  // Used only by Run's thread.
  std::vector<std::string> places_;
  size_t next_ = 0;
  std::chrono::steady_clock::time_point say_full_at_ = {};
  const std::shared_ptr<int> open_ = std::make_shared<int>(0);  // number of pairs, connected or not
  std::set<std::shared_ptr<Pair>> pairs_;
};

absl::StatusOr<std::unique_ptr<LoadBalancer>> LoadBalancer::Listen(const std::string& host, int port,
                                                                   LoadBalancerOptions options) {
  auto impl = std::make_shared<Impl>(options);
  INGOT_RETURN_IF_ERROR(impl->Listen(host, port));
  return std::unique_ptr<LoadBalancer>(new LoadBalancer(std::move(impl)));
}

LoadBalancer::LoadBalancer(std::shared_ptr<Impl> impl)
    : impl_(std::move(impl)), thread_([impl = impl_] { impl->Run(); }) {}

LoadBalancer::~LoadBalancer() {
  impl_->Stop();
  thread_.join();
}

int LoadBalancer::port() const { return impl_->port(); }

void LoadBalancer::SetGateways(std::vector<std::string> places) { impl_->SetGateways(std::move(places)); }

bool NeedsLoadBalancer(const RunConfig& config) {
  return config.cluster.gateways > 1 && config.gateway.public_url.empty() && !config.tasks.empty();
}

std::string LoadBalancerUrl(const RunConfig& config, const std::string& own_host, int port) {
  const bool every = config.http.host == "0.0.0.0" || config.http.host == "::";
  return absl::StrCat(config.http.tls_certificate.empty() ? "http" : "https", "://",
                      every ? own_host : config.http.host, ":", port);
}

LoadBalancerUpdater::LoadBalancerUpdater(LoadBalancer& load_balancer, RunRegistry& registry)
    : load_balancer_(load_balancer), registry_(registry) {
  thread_ = std::thread([this] { Run(); });
}

LoadBalancerUpdater::~LoadBalancerUpdater() {
  {
    base::MutexLock lock(mu_);
    stopping_ = true;
    stopped_.SignalAll();
  }
  thread_.join();
}

void LoadBalancerUpdater::Run() {
  const base::Clock& clock = base::Clock::Real();
  while (true) {
    // If the registry does not answer, keeps the last known gateways.
    if (const auto places = registry_.Places(); places.ok()) {
      std::vector<std::string> gateways;
      for (const RolePlace& place : *places) {
        if (!place.http.empty()) gateways.push_back(place.http);
      }
      load_balancer_.SetGateways(std::move(gateways));
    }
    base::MutexLock lock(mu_);
    const std::chrono::nanoseconds next = clock.Now() + kLook;
    while (!stopping_ && clock.WaitUntil(stopped_, mu_, next)) {
    }
    if (stopping_) return;
  }
}

}  // namespace ingot::app
