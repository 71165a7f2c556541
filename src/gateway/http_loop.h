// What a thread of the HTTP server runs, and what its coroutines wait with. Internal to the folder.
//
// Each such thread has a loop of its own, and each connection stays on the loop it was accepted for: what is here is
// used on that one thread only, without locks or strands, and the executor is a plain one.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <optional>
#include <utility>

namespace ingot::gateway {

using HttpLoop = boost::asio::io_context;
using LoopExecutor = HttpLoop::executor_type;
template <typename T>
using LoopTask = boost::asio::awaitable<T, LoopExecutor>;
using LoopSocket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, LoopExecutor>;
using LoopAcceptor = boost::asio::basic_socket_acceptor<boost::asio::ip::tcp, LoopExecutor>;
using LoopTimer = boost::asio::basic_waitable_timer<std::chrono::steady_clock,
                                                    boost::asio::wait_traits<std::chrono::steady_clock>, LoopExecutor>;
constexpr boost::asio::use_awaitable_t<LoopExecutor> kAwait;
constexpr auto kAwaitTuple = boost::asio::as_tuple(kAwait);

// What one coroutine waits for and handlers of its loop wake it by. A wake that nobody waits for is lost: who waits
// looks first, and again afterwards, at what it waits for.
class LoopSignal {
 public:
  auto Wait() {
    return boost::asio::async_initiate<const Token, void()>(
        [this](Handler handler) { waiting_.emplace(std::move(handler)); }, kAwait);
  }
  // Runs the coroutine until it waits again, or to its end: to be called last.
  void Wake() {
    if (!waiting_.has_value()) return;
    Handler handler = *std::move(waiting_);
    waiting_.reset();
    handler();
  }

 private:
  using Token = boost::asio::use_awaitable_t<LoopExecutor>;
  using Handler = boost::asio::async_result<Token, void()>::handler_type;
  std::optional<Handler> waiting_;
};

}  // namespace ingot::gateway
