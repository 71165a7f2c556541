// An HTTP server connection. Reads requests one after another and writes their responses. Internal to this directory.
// Everything except the constructor and the functions marked as thread safe runs on the connection's loop thread.
//
// While an exchange prepares a response, the connection watches for the client to disconnect. A client that closed its
// sending side may still be reading. To find out, the connection sends bytes that clients ignore: a stream's filler or,
// before a stream, an interim 102 response. If the client is gone, its system responds with a reset. Over TLS, and in
// HTTP/1.0 before a stream, closing the sending side counts as disconnecting.
//
// Beast parses requests and writes responses. Two parts are implemented here to save time and memory. A body with a
// known length is read directly into the string passed to its exchange, which grows as bytes arrive. A send is
// attempted immediately, without first waiting for the socket.
#pragma once

#include <algorithm>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "http/handler.h"
#include "http/limits.h"
#include "http/loop.h"
#include "http/options.h"
#include "http/places.h"
#include "http/site_check.h"

namespace ingot::http {

// The objects shared by all of a server's connections. They must outlive the connections.
struct ServerShared {
  const Options& options;
  Handler& handler;
  BodyBudget& bodies;
  const SiteCheck& site;
  boost::asio::ssl::context* tls;  // null = plaintext
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `loop` is the socket's loop. A wake-up keeps it alive while it runs.
  Connection(std::weak_ptr<Loop> loop, LoopSocket socket, const ServerShared& shared);

  // Serves requests until either side closes. Never throws. Reports each stage to `place`. If `place` is evicted, Close
  // is called.
  LoopTask<void> Run(std::shared_ptr<Place> place);

  // One of these is called instead of Run. Both respond with `why` and close the connection. RejectAndClose first
  // briefly reads what the client is still sending. Otherwise, the client's system might drop the response. Drop does
  // not wait, and it closes TLS connections without a response.
  LoopTask<void> RejectAndClose(Rejection why);
  void Drop(const Rejection& why);

  // Thread safe. Closes the connection after the request in flight, or immediately if there is none.
  void Finish();
  // Thread safe. Closes the connection and the exchange in flight.
  void Close();

 private:
  using Clock = std::chrono::steady_clock;
  using Error = boost::system::error_code;
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  enum class Next { kAnswer, kClose };  // result of ReadRequest
  struct Waker;
  class OpenSocket;
  struct Request {
    unsigned version = 11;  // 10 = HTTP/1.0
    bool keep_alive = false;
    bool is_head = false;                // HEAD: the response has no body
    std::shared_ptr<Exchange> exchange;  // null = `rejection` is the response
    Reply rejection;
    int64_t max_body_bytes = 0;
    bool reads_body = true;  // false = rejected based on its head, so the body is not read
    std::string body;
  };

  LoopTask<void> Serve();
  LoopTask<bool> Handshake(double seconds);  // false = failed or timed out after `seconds`
  void CloseSocket();

  // ---- Reading (connection_read.cc) ----
  LoopTask<Next> ReadRequest(Request& request, BodyCharge& charge);
  LoopTask<Error> WaitForRequest();
  // Returns true if the system has seen the client reset the connection.
  bool IsReset();
  // Returns the timeout for a request head in seconds.
  double HeadSeconds() const { return std::min(options_.head_timeout_s, options_.request_timeout_s); }
  LoopTask<Error> ReadHeader(Parser& parser);
  // Passes the head in `parser` to the handler.
  void Open(const Parser& parser, Request& request);
  // These read a request's body. buffer_ may already contain some of it. `rejected` is set if the failure is not a
  // socket or parser error.
  LoopTask<Error> ReadBody(Parser& parser, Request& request, BodyCharge& charge, std::optional<Rejection>& rejected);
  LoopTask<Error> ReadLength(const Parser& parser, std::string& body, BodyCharge& charge,
                             std::optional<Rejection>& rejected);
  LoopTask<Error> ReceiveBody(size_t length, std::string& body, BodyCharge& charge,
                              std::optional<Rejection>& rejected);  // without TLS
  LoopTask<Error> ReadChunks(Parser& parser, BodyCharge& charge, std::optional<Rejection>& rejected);
  // Reads up to about `most` bytes into buffer_.
  LoopTask<Error> ReadMore(size_t most);
  LoopTask<Error> WaitReadable();  // without TLS
  // Sends 100 Continue if the client waits for that before sending the body.
  LoopTask<Error> Invite(const Parser& parser);
  // Reads whatever bytes the socket has, without waiting. would_block is returned like any other error.
  Error Receive(void* to, size_t most, size_t& got);
  // Returns nullopt if the client is gone and will not read a response.
  std::optional<Rejection> WhyUnread(const Error& error, const Parser& parser, const Request& request) const;
  // Sends the last response on a connection whose request was not fully read.
  LoopTask<void> Reject(Reply reply, bool is_head);

  // ---- Answering ----
  LoopTask<bool> Answer(Request request);  // true = the connection can be reused
  // Returns false if the client did not receive the full stream.
  LoopTask<bool> AnswerStream(Exchange& exchange, Output output, unsigned version, bool keep_alive);
  LoopTask<bool> WriteReply(Reply reply, unsigned version, bool keep_alive, bool is_head);
  // `bytes` must stay valid until the write is done. Returns false if the client cannot receive them.
  LoopTask<bool> WriteBytes(std::string_view bytes);
  // kSilence means that `seconds` passed without progress. If `seconds` is 0, there is no limit.
  enum class WaitResult { kProgress, kSilence, kGone };
  LoopTask<WaitResult> WaitForProgress(double seconds = 0);
  std::function<void()> MakeWake();
  std::function<bool()> MakeClientGone();

  // ---- Watching ----
  void WatchForClose();
  void Watch();
  void Peek();
  void WatchForReset();
  void ReadAhead();

  // ---- Time ----
  void Arm(double seconds);  // sets the deadline, which cancels the socket's operations
  void Disarm() { deadline_ = kForever; }
  void SetTimer();
  void OnTimer();
  static constexpr auto kForever = Clock::time_point::max();

  const std::weak_ptr<Loop> loop_;
  const ServerShared& shared_;
  const Options& options_;
  LoopSocket socket_;
  std::optional<boost::asio::ssl::stream<LoopSocket&>> tls_;
  // One timer serves the two deadlines below. Most deadlines never expire, so canceling or postponing a deadline does
  // not touch the timer. When the timer expires, it is reset to the next deadline.
  LoopTimer timer_;
  Clock::time_point timer_at_ = kForever;
  Clock::time_point deadline_ = kForever;  // deadline for socket operations
  Clock::time_point silence_ = kForever;   // end of WaitForProgress
  LoopSignal signal_;                      // wakes the coroutine for everything except socket operations
  std::shared_ptr<Waker> waker_;           // null = not created yet
  std::shared_ptr<OpenSocket> open_;       // access to the socket from other threads
  boost::beast::flat_buffer buffer_;
  std::shared_ptr<Place> place_;
  bool served_ = false;             // a previous request was served
  std::function<void()> unread_;    // the last response's Reply::unread; null = not needed
  Clock::time_point unread_until_;  // a reset before this time means the response was not read
  std::string probe_;  // sent to a client that closed its sending side; empty = such a client is considered gone
  Error read_error_;   // error from ReadAhead or Watch
  bool timed_out_ = false;
  bool silent_ = false;     // silence_ has passed
  bool answering_ = false;  // between a request's last byte and its response's last byte
  bool woken_ = false;
  bool half_closed_ = false;  // the client closed its sending side
  bool probed_ = false;
  bool gone_ = false;      // the client has disconnected
  bool watching_ = false;  // Watch is in progress
  bool readable_ = false;  // Watch saw bytes that have not been read yet
  bool watching_for_reset_ = false;
  bool reading_ = false;  // ReadAhead is in progress
  bool waiting_ = false;  // for the first byte of a request
  bool finishing_ = false;
  bool closing_ = false;
};

}  // namespace ingot::http
