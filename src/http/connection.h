// One connection of the HTTP server: reads requests one after another and writes their answers. Internal to the folder.
// All but the constructor and the thread-safe functions runs on the thread of the connection's loop.
//
// While an exchange makes an answer, the connection watches for the client to go. A client that closed its sending side
// may still read. The connection sends it meaningless bytes: a stream's filler, or before a stream the interim
// response 102. A client that is gone for good answers these with a reset. Over TLS, and in HTTP/1.0 before a stream,
// the end of the sending side counts as the end of the client.
//
// Beast parses requests and writes answers. Two parts are done by hand, for speed and memory. A body of known length is
// read straight into the string that its exchange gets, which grows as bytes arrive. A send is tried at once, before
// anything waits for the socket.
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

// The parts of a server that all its connections share. They outlive the connections.
struct ServerShared {
  const Options& options;
  Handler& handler;
  BodyBudget& bodies;
  const SiteCheck& site;
  boost::asio::ssl::context* tls;  // null = plain text
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `loop` is the socket's. A wake keeps it alive for as long as it runs.
  Connection(std::weak_ptr<Loop> loop, LoopSocket socket, const ServerShared& shared);

  // Serves requests until either side is done. Never throws. Reports each stage to `place`; evicting it calls Close.
  LoopTask<void> Run(std::shared_ptr<Place> place);

  // Call one of these instead of Run: answers with `why` and closes. TurnAway first reads for a moment what the client
  // still sends; otherwise the client's system may drop the answer. Drop does not wait, and closes a TLS client without
  // an answer.
  LoopTask<void> TurnAway(Rejection why);
  void Drop(const Rejection& why);

  // Thread safe. Ends the connection after the request in flight, or at once if there is none.
  void Finish();
  // Thread safe. Closes the connection, and with it the exchange in flight.
  void Close();

 private:
  using Clock = std::chrono::steady_clock;
  using Error = boost::system::error_code;
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  enum class Next { kAnswer, kClose };  // after ReadRequest
  struct Waker;
  class OpenSocket;
  struct Request {
    unsigned version = 11;  // 10 = HTTP/1.0
    bool keep_alive = false;
    bool is_head = false;                // HEAD: the answer goes without its body
    std::shared_ptr<Exchange> exchange;  // null = `rejection` is the answer
    Reply rejection;
    int64_t max_body_bytes = 0;
    bool reads_body = true;  // false = rejected by its head: the rest is not read
    std::string body;
  };

  LoopTask<void> Serve();
  LoopTask<bool> Handshake(double seconds);  // false = not done within `seconds`, or failed
  void CloseSocket();

  // ---- Reading (connection_read.cc) ----
  LoopTask<Next> ReadRequest(Request& request, BodyCharge& charge);
  LoopTask<Error> WaitForRequest();
  // True if the system has seen the client reset the connection.
  bool IsReset();
  // Seconds for a request's head.
  double HeadSeconds() const { return std::min(options_.head_timeout_s, options_.request_timeout_s); }
  LoopTask<Error> ReadHeader(Parser& parser);
  // Asks the handler about the head that `parser` has.
  void Open(const Parser& parser, Request& request);
  // These read the rest of a request after its head; buffer_ may already hold some of it. `rejected` is set when the
  // reason is not an error of the socket or the parser.
  LoopTask<Error> ReadBody(Parser& parser, Request& request, BodyCharge& charge, std::optional<Rejection>& rejected);
  LoopTask<Error> ReadLength(const Parser& parser, std::string& body, BodyCharge& charge,
                             std::optional<Rejection>& rejected);
  LoopTask<Error> ReceiveBody(size_t length, std::string& body, BodyCharge& charge,
                              std::optional<Rejection>& rejected);  // without TLS
  LoopTask<Error> ReadChunks(Parser& parser, BodyCharge& charge, std::optional<Rejection>& rejected);
  // Puts bytes into buffer_, at most about `most`.
  LoopTask<Error> ReadMore(size_t most);
  LoopTask<Error> WaitReadable();  // without TLS
  // Sends 100 Continue to a client that waits for it before its body.
  LoopTask<Error> Invite(const Parser& parser);
  // Reads the bytes that the socket has, without waiting. would_block is an error like any other.
  Error Receive(void* to, size_t most, size_t& got);
  // nullopt = the client is gone and will not read an answer.
  std::optional<Rejection> WhyUnread(const Error& error, const Parser& parser, const Request& request) const;
  // Sends the last answer on a connection whose request was not fully read.
  LoopTask<void> Reject(Reply reply, bool is_head);

  // ---- Answering ----
  LoopTask<bool> Answer(Request request);  // true = the connection may be used again
  // False = the client did not get all of the stream.
  LoopTask<bool> AnswerStream(Exchange& exchange, Output output, unsigned version, bool keep_alive);
  LoopTask<bool> WriteReply(Reply reply, unsigned version, bool keep_alive, bool is_head);
  // `bytes` must stay valid until it is done. False = the client cannot get them.
  LoopTask<bool> WriteBytes(std::string_view bytes);
  // kSilence: `seconds` passed without progress. 0 = it waits forever.
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
  void Arm(double seconds);  // sets the deadline that cancels the socket's operations
  void Disarm() { deadline_ = kForever; }
  void SetTimer();
  void OnTimer();
  static constexpr auto kForever = Clock::time_point::max();

  const std::weak_ptr<Loop> loop_;
  const ServerShared& shared_;
  const Options& options_;
  LoopSocket socket_;
  std::optional<boost::asio::ssl::stream<LoopSocket&>> tls_;
  // One timer serves both times below. Most of them never arrive, so cancelling or postponing one leaves the timer
  // alone; when the timer expires, it is set to the next time.
  LoopTimer timer_;
  Clock::time_point timer_at_ = kForever;
  Clock::time_point deadline_ = kForever;  // of the socket's operations
  Clock::time_point silence_ = kForever;   // the end of WaitForProgress
  LoopSignal signal_;                      // wakes the coroutine for everything but socket operations
  std::shared_ptr<Waker> waker_;           // null = none was handed out
  std::shared_ptr<OpenSocket> open_;       // the socket, for other threads
  boost::beast::flat_buffer buffer_;
  std::shared_ptr<Place> place_;
  bool served_ = false;             // a request before this one
  std::function<void()> unread_;    // Reply::unread of the last answer; null = not wanted
  Clock::time_point unread_until_;  // a reset before it means that the answer was not read
  std::string probe_;               // bytes for a client that closed its sending side; empty = such a client is gone
  Error read_error_;                // of ReadAhead, or of Watch
  bool timed_out_ = false;
  bool silent_ = false;     // silence_ has passed
  bool answering_ = false;  // from a request's last byte to its answer's
  bool woken_ = false;
  bool half_closed_ = false;  // the client closed its sending side
  bool probed_ = false;
  bool gone_ = false;      // the client closed
  bool watching_ = false;  // Watch is under way
  bool readable_ = false;  // Watch saw bytes that are still unread
  bool watching_for_reset_ = false;
  bool reading_ = false;  // ReadAhead is under way
  bool waiting_ = false;  // for the first byte of a request
  bool finishing_ = false;
  bool closing_ = false;
};

}  // namespace ingot::http
