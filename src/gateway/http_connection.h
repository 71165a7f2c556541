// One connection of the HTTP server. Internal to the folder. All but the constructor and the thread-safe calls runs on
// the connection's strand.
//
// While an answer is being made it watches for the client to go. A client that has closed its side only may still read:
// it is sent something that says nothing (a comment of a stream, or the interim response 102 before one), which one
// that is gone for good answers with a reset. Over TLS, and in HTTP/1.0 before a stream, the end of its side is its
// end.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
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

// Bytes of the request bodies that a server holds, from when they are announced to when their answers are over. Thread
// safe.
class BodyBudget {
 public:
  explicit BodyBudget(int64_t limit) : limit_(limit) {}
  bool Take(int64_t bytes) {
    if (used_.fetch_add(bytes) + bytes <= limit_) return true;
    used_ -= bytes;
    return false;
  }
  void Give(int64_t bytes) { used_ -= bytes; }
  int64_t used() const { return used_; }

 private:
  const int64_t limit_;
  std::atomic<int64_t> used_{0};
};

// What all connections of a server share. It outlives them.
struct HttpShared {
  const HttpServerOptions& options;
  HttpApi& api;
  BodyBudget& bodies;
  boost::asio::ssl::context* tls;  // null: plain text
};

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  using Parsed = boost::beast::http::request<boost::beast::http::string_body>;

  // `loop` is kept alive as long as somebody may wake this connection.
  HttpConnection(std::shared_ptr<boost::asio::io_context> loop, Socket socket, const HttpShared& shared);

  // Serves requests until either side is done. Never throws.
  boost::asio::awaitable<void> Run();

  // Instead of Run: says why and closes. Does not wait for the client.
  void TurnAway(const absl::Status& why);

  // Thread safe. Ends after the request in flight, or at once if there is none.
  void Finish();
  // Thread safe. Abandons the request in flight and closes.
  void Close();

 private:
  using Error = boost::system::error_code;
  // What to do after waiting for a request.
  enum class Next { kAnswer, kClose };
  struct Charge;  // of a body

  boost::asio::awaitable<void> Serve();
  boost::asio::awaitable<bool> Handshake();
  boost::asio::awaitable<Next> ReadRequest(Parsed& request, Charge& charge);
  boost::asio::awaitable<Error> WaitForRequest();
  // Puts bytes into buffer_, at most about `most`.
  boost::asio::awaitable<Error> ReadMore(size_t most);
  absl::Status WhyUnread(const Error& error, bool begun) const;
  boost::asio::awaitable<bool> Answer(Parsed request);  // true: the connection may be used again
  boost::asio::awaitable<bool> AnswerStream(Exchange& exchange, Exchange::Progress progress, unsigned version,
                                            bool keep_alive);
  boost::asio::awaitable<bool> WriteReply(HttpReply reply, unsigned version, bool keep_alive, bool head);
  boost::asio::awaitable<bool> WriteBytes(std::string bytes);
  std::string CommonHeaders() const;  // of every answer
  boost::asio::awaitable<void> Reject(std::string target, absl::Status why);
  // Also after `seconds` of nothing, if they are over 0: woken_ was not set then.
  enum class Waited { kProgress, kSilence, kGone };
  boost::asio::awaitable<Waited> WaitForProgress(double seconds = 0);
  std::function<void()> MakeWake();
  void WatchForClose();
  void WatchForReset();
  void ReadAhead();
  void Arm(double seconds);  // cancels the socket's operations when it expires
  void Disarm();

  const std::shared_ptr<boost::asio::io_context> loop_;
  const HttpShared& shared_;
  const HttpServerOptions& options_;
  Socket socket_;
  std::optional<boost::asio::ssl::stream<Socket&>> tls_;
  boost::asio::steady_timer deadline_;
  boost::asio::steady_timer signal_;  // cancelled to wake Answer
  boost::beast::flat_buffer buffer_;
  std::string probe_;       // what to send a client that closed its side; empty: it is gone
  std::string request_id_;  // of the request that is being answered
  Error read_error_;        // of ReadAhead
  bool timed_out_ = false;
  bool woken_ = false;
  bool half_closed_ = false;  // the client closed its side
  bool probed_ = false;
  bool gone_ = false;  // the client closed
  bool watching_ = false;
  bool watching_for_reset_ = false;
  bool reading_ = false;  // ReadAhead is under way
  bool waiting_ = false;  // for the first byte of a request
  bool finishing_ = false;
  bool closing_ = false;
};

}  // namespace ingot::gateway
