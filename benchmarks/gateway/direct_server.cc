#include "gateway/direct_server.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <thread>
#include <utility>

namespace ingot::bench {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
constexpr auto kUse = asio::as_tuple(asio::use_awaitable);

constexpr char kHead[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n";
constexpr char kOpened[] = R"({"episode_id":"0","api_key":"key"})";

std::string Chunk(const std::string& data) { return absl::StrCat(absl::Hex(data.size()), "\r\n", data, "\r\n"); }

// One connection; lives on the server's one thread.
struct Peer : std::enable_shared_from_this<Peer> {
  explicit Peer(tcp::socket connected) : socket(std::move(connected)), signal(socket.get_executor()) {}

  tcp::socket socket;
  asio::steady_timer signal;
  int ready = 0;  // chunks of the engine that came
};

}  // namespace

struct DirectServer::Impl {
  Impl(rollout::Client& served, std::vector<std::string> texts)
      : engine(served), events(std::move(texts)), acceptor(loop, {asio::ip::address_v4::loopback(), 0}) {}

  asio::awaitable<void> Accept() {
    while (true) {
      auto [error, socket] = co_await acceptor.async_accept(kUse);
      if (error) co_return;
      asio::co_spawn(loop, Serve(std::make_shared<Peer>(std::move(socket))), asio::detached);
    }
  }

  asio::awaitable<void> Serve(std::shared_ptr<Peer> peer) {
    peer->socket.set_option(tcp::no_delay(true));
    std::string held;
    while (true) {
      auto [error, head] = co_await asio::async_read_until(peer->socket, asio::dynamic_buffer(held), "\r\n\r\n", kUse);
      if (error) co_return;
      const bool call = held.find("/ingot/") > held.find("\r\n");
      const size_t at = held.find("Content-Length: ");
      const size_t total = head + (at < head ? std::stoul(held.substr(at + 16, 20)) : 0);
      const size_t have = std::min(held.size(), total);
      held.resize(total);
      auto [body_error, rest] = co_await asio::async_read(peer->socket, asio::buffer(held.data() + have, total - have),
                                                          asio::transfer_all(), kUse);
      if (body_error) co_return;
      held.clear();
      bool sent = false;
      if (call) {
        sent = co_await Answer(peer);
      } else {
        sent = co_await Write(*peer, Opened());
      }
      if (!sent) co_return;
    }
  }

  static std::string Opened() {
    return absl::StrCat("HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: ",
                        sizeof(kOpened) - 1, "\r\n\r\n", kOpened);
  }

  asio::awaitable<bool> Write(Peer& peer, std::string bytes) {
    auto [error, sent] = co_await asio::async_write(peer.socket, asio::buffer(bytes), kUse);
    co_return !error;
  }

  asio::awaitable<bool> Answer(std::shared_ptr<Peer> peer) {
    peer->ready = 0;
    const auto request = engine.Generate({}, [this, weak = std::weak_ptr(peer)](absl::StatusOr<v1::GenerateChunk>) {
      asio::post(loop, [weak] {
        const auto self = weak.lock();
        if (self == nullptr) return;
        ++self->ready;
        self->signal.cancel();
      });
    });
    int sent = 0;
    while (sent < static_cast<int>(events.size())) {
      while (peer->ready == sent) {
        peer->signal.expires_at(asio::steady_timer::time_point::max());
        co_await peer->signal.async_wait(kUse);
      }
      std::string data, bytes = sent == 0 ? kHead : "";
      for (; sent < peer->ready; ++sent) data += events[sent];
      if (!data.empty()) bytes += Chunk(data);
      if (sent == static_cast<int>(events.size())) bytes += "0\r\n\r\n";
      if (bytes.empty()) continue;
      const bool written = co_await Write(*peer, std::move(bytes));
      if (!written) co_return false;
    }
    co_return true;
  }

  rollout::Client& engine;
  const std::vector<std::string> events;
  asio::io_context loop{1};
  tcp::acceptor acceptor;
  std::thread thread;
};

DirectServer::DirectServer(rollout::Client& engine, std::vector<std::string> events)
    : impl_(std::make_unique<Impl>(engine, std::move(events))) {
  asio::co_spawn(impl_->loop, impl_->Accept(), asio::detached);
  impl_->thread = std::thread([this] { impl_->loop.run(); });
}

DirectServer::~DirectServer() {
  impl_->loop.stop();
  impl_->thread.join();
}

int DirectServer::port() const { return impl_->acceptor.local_endpoint().port(); }

}  // namespace ingot::bench
