// One connection of the HTTP server. Internal to the folder. All but the constructor and the thread-safe calls runs on
// the thread of the connection's loop.
//
// While an answer is being made it watches for the client to go. A client that has closed its side only may still read:
// it is sent something that says nothing (a comment of a stream, or the interim response 102 before one), which one
// that is gone for good answers with a reset. Over TLS, and in HTTP/1.0 before a stream, the end of its side is its
// end.
#pragma once

#include <atomic>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/http_api.h"
#include "gateway/http_loop.h"
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
  using Parsed = boost::beast::http::request<boost::beast::http::string_body>;

  // `loop` is the socket's. It is kept alive as long as somebody may wake this connection.
  HttpConnection(std::weak_ptr<HttpLoop> loop, LoopSocket socket, const HttpShared& shared);

  // Serves requests until either side is done. Never throws.
  LoopTask<void> Run();

  // Instead of Run: says why and closes. Does not wait for the client.
  void TurnAway(const absl::Status& why);

  // Thread safe. Ends after the request in flight, or at once if there is none.
  void Finish();
  // Thread safe. Abandons the request in flight and closes.
  void Close();

 private:
  using Clock = std::chrono::steady_clock;
  using Error = boost::system::error_code;
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  // What to do after waiting for a request.
  enum class Next { kAnswer, kClose };
  struct Charge;  // of a body
  struct Waker;

  LoopTask<void> Serve();
  LoopTask<bool> Handshake();

  // ---- Reading (http_connection_read.cc) ----
  LoopTask<Next> ReadRequest(Parsed& request, Charge& charge);
  LoopTask<Error> WaitForRequest();
  LoopTask<Error> ReadHeader(Parser& parser);
  // The rest of a request behind its header, of which buffer_ may have some. `refused`: why not, if it is not an error.
  LoopTask<Error> ReadBody(const Parser& parser, std::string& body, Charge& charge, absl::Status& refused);
  LoopTask<Error> ReceiveBody(size_t length, std::string& body, Charge& charge, absl::Status& refused);  // without TLS
  LoopTask<Error> ReadChunks(Parser& parser, Charge& charge, absl::Status& refused);
  // Puts bytes into buffer_, at most about `most`.
  LoopTask<Error> ReadMore(size_t most);
  LoopTask<Error> WaitReadable();  // without TLS
  LoopTask<Error> Invite(const Parser& parser);
  Error Receive(void* to, size_t most, size_t& got);
  absl::Status WhyUnread(const Error& error, bool begun) const;
  LoopTask<void> Reject(std::string target, absl::Status why);

  // ---- Answering ----
  LoopTask<bool> Answer(Parsed request);  // true: the connection may be used again
  LoopTask<bool> AnswerStream(Exchange& exchange, Exchange::Progress progress, unsigned version, bool keep_alive);
  LoopTask<bool> WriteReply(HttpReply reply, unsigned version, bool keep_alive, bool head);
  // What it writes outlives it.
  LoopTask<bool> WriteBytes(std::string_view bytes);
  bool SendNow(std::string_view& bytes);
  // Also after `seconds` of nothing, if they are over 0: woken_ was not set then.
  enum class Waited { kProgress, kSilence, kGone };
  LoopTask<Waited> WaitForProgress(double seconds = 0);
  std::function<void()> MakeWake();

  // ---- Watching ----
  void WatchForClose();
  void Watch();
  void Peek();
  void WatchForReset();
  void ReadAhead();

  // ---- Time ----
  void Arm(double seconds);  // cancels the socket's operations when it expires
  void Disarm() { deadline_ = kForever; }
  void SetTimer();
  void OnTimer();
  static constexpr auto kForever = Clock::time_point::max();

  const std::weak_ptr<HttpLoop> loop_;
  const HttpShared& shared_;
  const HttpServerOptions& options_;
  LoopSocket socket_;
  std::optional<boost::asio::ssl::stream<LoopSocket&>> tls_;
  // One timer for all that has its time. Most of it is over long before: taking it back, or setting another, leaves the
  // timer as it is unless that comes earlier, and when it expires it is set for what there is then.
  LoopTimer timer_;
  Clock::time_point timer_at_ = kForever;  // what it was set to
  Clock::time_point deadline_ = kForever;  // of the socket's operations
  Clock::time_point silence_ = kForever;   // the end of WaitForProgress
  LoopSignal signal_;                      // of all that the coroutine waits for, but the socket's operations
  std::shared_ptr<Waker> waker_;           // null: nobody was given one
  boost::beast::flat_buffer buffer_;
  std::string probe_;       // what to send a client that closed its side; empty: it is gone
  std::string request_id_;  // of the request that is being answered
  Error read_error_;        // of ReadAhead, or of Watch
  bool timed_out_ = false;
  bool silent_ = false;     // silence_ is over
  bool answering_ = false;  // from a request's last byte to its answer's
  bool woken_ = false;
  bool half_closed_ = false;  // the client closed its side
  bool probed_ = false;
  bool gone_ = false;      // the client closed
  bool watching_ = false;  // Watch is under way
  bool readable_ = false;  // it saw something that was not read since
  bool watching_for_reset_ = false;
  bool reading_ = false;  // ReadAhead is under way
  bool waiting_ = false;  // for the first byte of a request
  bool finishing_ = false;
  bool closing_ = false;
};

// A body's share of the budget.
struct HttpConnection::Charge {
  explicit Charge(BodyBudget& of) : budget(of) {}
  ~Charge() { budget.Give(taken); }
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;
  bool Cover(int64_t bytes) {
    if (bytes <= taken) return true;
    if (!budget.Take(bytes - taken)) return false;
    taken = bytes;
    return true;
  }
  BodyBudget& budget;
  int64_t taken = 0;
};

}  // namespace ingot::gateway
