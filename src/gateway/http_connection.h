// One connection of the HTTP server. Internal to the folder. All but the constructor and the thread-safe calls runs on
// the connection's strand.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "gateway/http_api.h"
#include "gateway/options.h"

namespace ingot::gateway {

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  using Parsed = boost::beast::http::request<boost::beast::http::string_body>;

  // `loop` is kept alive as long as somebody may wake this connection.
  HttpConnection(std::shared_ptr<boost::asio::io_context> loop, Socket socket, const HttpServerOptions& options,
                 HttpApi& api);

  // Serves requests until either side is done. Never throws.
  boost::asio::awaitable<void> Run();

  // Instead of Run: says why and closes. Does not wait for the client.
  void TurnAway(const absl::Status& why);

  // Thread safe. Ends after the request in flight, or at once if there is none.
  void Finish();
  // Thread safe. Abandons the request in flight and closes.
  void Close();

 private:
  boost::asio::awaitable<void> Serve();
  // What to do after waiting for a request.
  enum class Next { kAnswer, kClose };
  boost::asio::awaitable<Next> ReadRequest(Parsed& request);
  boost::asio::awaitable<bool> Answer(Parsed request);  // true: the connection may be used again
  boost::asio::awaitable<bool> AnswerStream(Exchange& exchange, Exchange::Progress progress, unsigned version,
                                            bool keep_alive);
  boost::asio::awaitable<bool> WriteReply(HttpReply reply, unsigned version, bool keep_alive, bool head);
  boost::asio::awaitable<bool> WriteBytes(std::string bytes);
  boost::asio::awaitable<void> Reject(std::string target, absl::Status why);
  // Also after `seconds` of nothing, if they are over 0: woken_ was not set then.
  enum class Waited { kProgress, kSilence, kGone };
  boost::asio::awaitable<Waited> WaitForProgress(double seconds = 0);
  std::function<void()> MakeWake();
  void WatchForClose();
  void Arm(double seconds);  // cancels the socket's operations when it expires
  void Disarm();

  const std::shared_ptr<boost::asio::io_context> loop_;
  const HttpServerOptions& options_;
  HttpApi& api_;
  Socket socket_;
  boost::asio::steady_timer deadline_;
  boost::asio::steady_timer signal_;  // cancelled to wake Answer
  boost::beast::flat_buffer buffer_;
  bool timed_out_ = false;
  bool woken_ = false;
  bool gone_ = false;  // the client closed
  bool watching_ = false;
  bool waiting_ = false;  // for the first byte of a request
  bool finishing_ = false;
  bool closing_ = false;
};

}  // namespace ingot::gateway
