// Defines a server thread's event loop and the types on which its coroutines wait. Internal to this directory.
//
// Each I/O thread runs its own loop, and a connection stays on the loop where it was accepted. So these types are used
// on only one thread, without locks or strands, and with a plain executor.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <optional>
#include <utility>

namespace ingot::http {

using Loop = boost::asio::io_context;
using LoopExecutor = Loop::executor_type;
template <typename T>
using LoopTask = boost::asio::awaitable<T, LoopExecutor>;
// A TCP or Unix socket.
using LoopSocket = boost::asio::basic_stream_socket<boost::asio::generic::stream_protocol, LoopExecutor>;
using LoopAcceptor = boost::asio::basic_socket_acceptor<boost::asio::generic::stream_protocol, LoopExecutor>;
using LoopTimer = boost::asio::basic_waitable_timer<std::chrono::steady_clock,
                                                    boost::asio::wait_traits<std::chrono::steady_clock>, LoopExecutor>;
constexpr boost::asio::use_awaitable_t<LoopExecutor> kAwait;
constexpr auto kAwaitTuple = boost::asio::as_tuple(kAwait);

// A signal from a loop's handlers to one of its coroutines. A signal is lost if no coroutine is waiting, so the
// coroutine must check its condition both before and after waiting.
class LoopSignal {
 public:
  auto Wait() {
    return boost::asio::async_initiate<const Token, void()>(
        [this](Resumption resumption) { waiting_.emplace(std::move(resumption)); }, kAwait);
  }
  // Runs the coroutine until it waits again or ends. Must be the last thing that the caller does.
  void Wake() {
    if (!waiting_.has_value()) return;
    Resumption resumption = *std::move(waiting_);
    waiting_.reset();
    resumption();
  }

 private:
  using Token = boost::asio::use_awaitable_t<LoopExecutor>;
  using Resumption = boost::asio::async_result<Token, void()>::handler_type;
  std::optional<Resumption> waiting_;
};

}  // namespace ingot::http
