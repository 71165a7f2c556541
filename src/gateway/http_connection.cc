#include "gateway/http_connection.h"

#include <sys/socket.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <cerrno>
#include <ctime>
#include <utility>

#include "base/log.h"
#include "gateway/api_error.h"

namespace ingot::gateway {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr auto kUse = asio::as_tuple(asio::use_awaitable);
constexpr size_t kReadBytes = 16 * 1024;
constexpr size_t kBodyReadBytes = 256 * 1024;
constexpr size_t kKeptBytes = 64 * 1024;  // of a connection's buffer, between requests
constexpr auto kForever = asio::steady_timer::time_point::max();
constexpr char kKeepAlive[] = ": keep-alive\n\n";  // a comment: no client of SSE shows it to anyone
constexpr char kProcessing[] = "HTTP/1.1 102 Processing\r\n\r\n";
constexpr double kLingerSeconds = 2;  // for a client that is still sending what was refused

std::string Text(beast::string_view view) { return {view.data(), view.size()}; }

std::string Chunk(std::string_view data) {
  return absl::StrCat(absl::Hex(data.size()), "\r\n", base::View(data), "\r\n");
}

// Now, as "Sun, 06 Nov 1994 08:49:37 GMT".
std::string HttpDate() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &parts)};
}

}  // namespace

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

HttpConnection::HttpConnection(std::shared_ptr<asio::io_context> loop, Socket socket, const HttpShared& shared)
    : loop_(std::move(loop)),
      shared_(shared),
      options_(shared.options),
      socket_(std::move(socket)),
      deadline_(socket_.get_executor()),
      signal_(socket_.get_executor()) {
  if (shared_.tls != nullptr) tls_.emplace(socket_, *shared_.tls);
}

void HttpConnection::Arm(double seconds) {
  timed_out_ = false;
  deadline_.expires_after(base::FromSeconds(seconds));
  deadline_.async_wait([weak = weak_from_this()](error_code error) {
    const auto self = weak.lock();
    if (error || self == nullptr || self->deadline_.expiry() > std::chrono::steady_clock::now()) return;
    self->timed_out_ = true;
    self->socket_.cancel(error);
  });
}

void HttpConnection::Disarm() { deadline_.expires_at(kForever); }

void HttpConnection::Finish() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->finishing_ = true;
    error_code ignored;
    if (self->waiting_) self->socket_.cancel(ignored);
  });
}

void HttpConnection::Close() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->closing_ = true;
    self->signal_.cancel();
    error_code ignored;
    self->socket_.close(ignored);
  });
}

void HttpConnection::TurnAway(const absl::Status& why) {
  const std::string body = ErrorJson(why);
  request_id_ = NewRequestId();
  const std::string bytes = absl::StrCat("HTTP/1.1 ", HttpStatusOf(why), " Refused\r\n", CommonHeaders(),
                                         "Content-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\n",
                                         "Content-Length: ", body.size(), "\r\n\r\n", body);
  error_code ignored;
  socket_.non_blocking(true, ignored);
  if (!tls_.has_value()) socket_.write_some(asio::buffer(bytes), ignored);  // what speaks TLS is closed without a word
  socket_.shutdown(Socket::shutdown_both, ignored);
  socket_.close(ignored);
}

// Notices that the client closed while nothing is read. Stops at the first byte of a further request.
void HttpConnection::WatchForClose() {
  if (tls_.has_value()) return ReadAhead();
  if (watching_ || gone_ || half_closed_) return;
  watching_ = true;
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](error_code error) {
    self->watching_ = false;
    if (error) return;  // closed or timed out: whoever did it knows
    char byte = 0;
    const ssize_t got = ::recv(self->socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got > 0) return;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return self->WatchForClose();
    (got == 0 ? self->half_closed_ : self->gone_) = true;
    self->signal_.cancel();
  });
}

// After a client closed its side: notices that it is gone altogether.
void HttpConnection::WatchForReset() {
  if (watching_for_reset_) return;
  watching_for_reset_ = true;
  socket_.async_wait(Socket::wait_error, [self = shared_from_this()](error_code error) {
    self->watching_for_reset_ = false;
    if (error) return;
    self->gone_ = true;
    self->signal_.cancel();
  });
}

// Over TLS the end of a stream is a message like any other: it is read, and with it what a client sends ahead.
void HttpConnection::ReadAhead() {
  if (reading_ || gone_ || buffer_.size() > 0) return;
  reading_ = true;
  tls_->async_read_some(buffer_.prepare(kReadBytes), [self = shared_from_this()](error_code error, size_t bytes) {
    self->reading_ = false;
    self->buffer_.commit(bytes);
    self->read_error_ = error;
    if (error && error != asio::error::operation_aborted) self->gone_ = true;
    self->signal_.cancel();
  });
}

std::function<void()> HttpConnection::MakeWake() {
  // The loop outlives the post; the connection need not.
  return [loop = loop_, executor = socket_.get_executor(), weak = weak_from_this()] {
    asio::post(executor, [weak] {
      if (const auto self = weak.lock()) {
        self->woken_ = true;
        self->signal_.cancel();
      }
    });
  };
}

asio::awaitable<HttpConnection::Waited> HttpConnection::WaitForProgress(double seconds) {
  WatchForClose();
  const auto until = seconds > 0 ? std::chrono::steady_clock::now() + base::FromSeconds(seconds) : kForever;
  while (!woken_ && !gone_ && !closing_) {
    if (half_closed_ && !probed_) {
      probed_ = true;
      WatchForReset();  // before what may cause one
      const bool sent = !probe_.empty() && co_await WriteBytes(probe_);
      if (!sent) gone_ = true;
      continue;
    }
    if (until != kForever && std::chrono::steady_clock::now() >= until) co_return Waited::kSilence;
    signal_.expires_at(until);
    co_await signal_.async_wait(kUse);
  }
  woken_ = false;
  co_return gone_ || closing_ ? Waited::kGone : Waited::kProgress;
}

asio::awaitable<void> HttpConnection::Run() {
  try {
    co_await Serve();
  } catch (const std::exception& error) {
    INGOT_LOG(error, "a connection is closed: {}", error.what());
  }
  error_code ignored;
  deadline_.cancel();
  signal_.cancel();
  socket_.shutdown(Socket::shutdown_both, ignored);
  socket_.close(ignored);
}

asio::awaitable<void> HttpConnection::Serve() {
  error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  if (tls_.has_value()) {
    const bool shaken = co_await Handshake();
    if (!shaken) co_return;
  }
  while (!finishing_ && !closing_) {
    Charge charge(shared_.bodies);
    Parsed request;
    const Next next = co_await ReadRequest(request, charge);
    if (next == Next::kClose) break;
    const bool again = co_await Answer(std::move(request));
    if (!again) break;
  }
  if (!tls_.has_value() || closing_ || gone_) co_return;
  Arm(kLingerSeconds);
  while (reading_) {
    socket_.cancel(ignored);
    signal_.expires_at(kForever);
    co_await signal_.async_wait(kUse);
  }
  co_await tls_->async_shutdown(kUse);
  Disarm();
}

asio::awaitable<bool> HttpConnection::Handshake() {
  Arm(options_.request_timeout_s);
  auto [error] = co_await tls_->async_handshake(asio::ssl::stream_base::server, kUse);
  Disarm();
  if (error) INGOT_LOG(debug, "a TLS handshake failed: {}", error.message());
  co_return !error;
}

// The first byte of a request.
asio::awaitable<error_code> HttpConnection::WaitForRequest() {
  if (!reading_ && buffer_.capacity() > kKeptBytes) buffer_.shrink_to_fit();
  Arm(options_.idle_timeout_s);
  waiting_ = true;
  error_code error;
  if (!tls_.has_value()) {  // an idle connection needs no buffer
    auto [wait_error] = co_await socket_.async_wait(Socket::wait_read, kUse);
    error = wait_error;
  }
  if (!error) error = co_await ReadMore(kReadBytes);
  waiting_ = false;
  co_return error;
}

asio::awaitable<error_code> HttpConnection::ReadMore(size_t most) {
  if (reading_) {
    while (reading_) {
      signal_.expires_at(kForever);
      co_await signal_.async_wait(kUse);
    }
    co_return buffer_.size() > 0 ? error_code() : read_error_;
  }
  if (tls_.has_value()) {
    auto [error, bytes] = co_await tls_->async_read_some(buffer_.prepare(most), kUse);
    buffer_.commit(bytes);
    co_return error;
  }
  auto [error, bytes] = co_await socket_.async_read_some(buffer_.prepare(most), kUse);
  buffer_.commit(bytes);
  co_return error;
}

asio::awaitable<HttpConnection::Next> HttpConnection::ReadRequest(Parsed& request, Charge& charge) {
  if (buffer_.size() == 0) {
    const error_code error = co_await WaitForRequest();
    if (error) co_return Next::kClose;
  }
  Arm(options_.request_timeout_s);
  http::request_parser<http::string_body> parser;
  parser.eager(true);
  parser.header_limit(options_.max_header_bytes);
  parser.body_limit(options_.max_body_bytes);
  error_code error;
  absl::Status refused;
  bool header_seen = false;
  while (true) {
    if (buffer_.size() > 0) buffer_.consume(parser.put(buffer_.data(), error));
    if (error == http::error::need_more) error = {};
    if (error) break;
    // As it comes, not as it is announced: announcing costs a client nothing.
    if (!charge.Cover(static_cast<int64_t>(parser.get().body().size()))) {
      refused = ApiError(503, "overloaded", "", "the bodies of the requests in flight fill max_buffered_bytes");
      break;
    }
    if (parser.is_done()) break;
    if (buffer_.size() > static_cast<size_t>(options_.max_header_bytes)) {  // of a chunk's header, which has no end
      error = http::error::bad_chunk_extension;
      break;
    }
    if (parser.is_header_done() && !header_seen) {
      header_seen = true;
      if (beast::iequals(parser.get()[http::field::expect], "100-continue")) {
        const bool sent = co_await WriteBytes("HTTP/1.1 100 Continue\r\n\r\n");
        if (!sent) co_return Next::kClose;
        Arm(options_.request_timeout_s);
      }
    }
    const uint64_t announced = parser.is_header_done() ? parser.content_length().value_or(0) : 0;
    error = co_await ReadMore(announced > kReadBytes ? kBodyReadBytes : kReadBytes);
    if (error) break;
  }
  Disarm();
  if (refused.ok() && !error) {
    request = parser.release();
    co_return Next::kAnswer;
  }
  if (closing_) co_return Next::kClose;
  if (refused.ok()) refused = WhyUnread(error, parser.got_some());
  const std::string target = Text(parser.get().target());  // empty if that was not read
  if (!refused.ok()) co_await Reject(target, std::move(refused));
  co_return Next::kClose;
}

// OK: nobody is there to be told.
absl::Status HttpConnection::WhyUnread(const error_code& error, bool begun) const {
  if (timed_out_) {
    return ApiError(408, "request_timeout", "",
                    absl::StrCat("the request did not arrive within ", options_.request_timeout_s, " s"));
  }
  if (error == http::error::body_limit) {
    return ApiError(413, "body_too_large", "",
                    absl::StrCat("the request's body is over ", options_.max_body_bytes, " bytes"));
  }
  if (error == http::error::header_limit) {
    return ApiError(431, "header_too_large", "",
                    absl::StrCat("the request's header is over ", options_.max_header_bytes, " bytes"));
  }
  if (error == asio::error::eof && begun) {
    return ApiError(400, "incomplete_request", "", "the connection's sending side was closed within the request");
  }
  if (error.category() == make_error_code(http::error::bad_method).category()) {
    return ApiError(400, "malformed_http", "", "the request is not HTTP/1.1: " + error.message());
  }
  return absl::OkStatus();
}

// Answers what could not be read, and drops what still comes, so that the client reads the answer instead of a reset.
asio::awaitable<void> HttpConnection::Reject(std::string target, absl::Status why) {
  request_id_ = NewRequestId();
  const bool sent = co_await WriteReply(ErrorReply(target, {}, why, 1), 11, false, false);
  if (!sent) co_return;
  error_code error;
  if (!tls_.has_value()) socket_.shutdown(Socket::shutdown_send, error);
  Arm(kLingerSeconds);
  do {
    buffer_.clear();
    error = co_await ReadMore(kReadBytes);
  } while (!error);
}

asio::awaitable<bool> HttpConnection::Answer(Parsed parsed) {
  const unsigned version = parsed.version();
  const bool keep_alive = parsed.keep_alive() && !finishing_;
  const bool head = parsed.method() == http::verb::head;
  if (version >= 11 && parsed.count(http::field::host) != 1) {
    const absl::Status why = ApiError(400, "missing_host", "", "HTTP/1.1 asks for one Host header, and not more");
    request_id_ = NewRequestId();
    co_return co_await WriteReply(ErrorReply(Text(parsed.target()), {}, why, 1), version, keep_alive, head);
  }
  HttpRequest request;
  request.method = Text(parsed.method_string());
  request.target = Text(parsed.target());
  request.authorization = Text(parsed[http::field::authorization]);
  request.api_key = Text(parsed["x-api-key"]);
  for (const auto& field : parsed) request.headers.Add(Text(field.name_string()), Text(field.value()));
  request.body = std::move(parsed.body());
  woken_ = probed_ = false;
  probe_ = version >= 11 ? kProcessing : "";
  const std::shared_ptr<Exchange> exchange = shared_.api.Start(std::move(request), MakeWake());
  request_id_ = exchange->id();
  while (true) {
    const Waited waited = co_await WaitForProgress();
    if (waited == Waited::kGone) {
      exchange->Abandon(closing_ ? absl::UnavailableError("the gateway is shutting down")
                                 : absl::CancelledError("the client went away"));
      co_return false;
    }
    Exchange::Progress progress = exchange->Take();
    if (progress.reply.has_value()) {
      co_return co_await WriteReply(*std::move(progress.reply), version, keep_alive && !finishing_, head);
    }
    if (progress.stream_begins) {
      const bool whole = co_await AnswerStream(*exchange, std::move(progress), version, keep_alive);
      if (!whole) exchange->Abandon(absl::CancelledError("the client went away"));
      co_return whole&& keep_alive&& version >= 11 && !finishing_;
    }
    if (progress.done) co_return false;
  }
}

// False if the client did not get all of it.
asio::awaitable<bool> HttpConnection::AnswerStream(Exchange& exchange, Exchange::Progress progress, unsigned version,
                                                   bool keep_alive) {
  const bool chunked = version >= 11;
  std::string bytes =
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\n";
  bytes += CommonHeaders();
  bytes += chunked ? "Transfer-Encoding: chunked\r\n" : "";
  bytes += keep_alive && chunked ? "\r\n" : "Connection: close\r\n\r\n";
  probe_ = chunked ? Chunk(kKeepAlive) : kKeepAlive;
  while (true) {
    if (!progress.data.empty()) bytes += chunked ? Chunk(progress.data) : progress.data;
    if (progress.done && chunked) bytes += "0\r\n\r\n";
    if (!bytes.empty()) {
      const bool sent = co_await WriteBytes(std::exchange(bytes, {}));
      if (!sent) co_return false;
    }
    if (progress.done) co_return true;
    const Waited waited = co_await WaitForProgress(options_.keepalive_s);
    if (waited == Waited::kGone) co_return false;
    progress = waited == Waited::kSilence ? Exchange::Progress{.reply = {}, .data = kKeepAlive} : exchange.Take();
  }
}

// With both names that vendors' clients know a request's id by.
std::string HttpConnection::CommonHeaders() const {
  return absl::StrCat("Server: ingot\r\nDate: ", HttpDate(), "\r\nx-request-id: req_", request_id_,
                      "\r\nrequest-id: req_", request_id_, "\r\n");
}

asio::awaitable<bool> HttpConnection::WriteBytes(std::string bytes) {
  Arm(options_.write_timeout_s);
  error_code error;
  if (tls_.has_value()) {
    auto [tls_error, written] = co_await asio::async_write(*tls_, asio::buffer(bytes), kUse);
    error = tls_error;
  } else {
    auto [plain_error, written] = co_await asio::async_write(socket_, asio::buffer(bytes), kUse);
    error = plain_error;
  }
  Disarm();
  co_return !error && !closing_;
}

asio::awaitable<bool> HttpConnection::WriteReply(HttpReply reply, unsigned version, bool keep_alive, bool head) {
  const beast::string_view reason = http::obsolete_reason(http::int_to_status(static_cast<unsigned>(reply.status)));
  std::string bytes =
      absl::StrCat("HTTP/1.", version >= 11 ? 1 : 0, " ", reply.status, " ", Text(reason), "\r\n", CommonHeaders(),
                   "Content-Type: ", reply.content_type, "\r\nContent-Length: ", reply.body.size(), "\r\n");
  for (const auto& [name, text] : reply.headers) absl::StrAppend(&bytes, name, ": ", text, "\r\n");
  if (!keep_alive && version >= 11) bytes += "Connection: close\r\n";
  if (keep_alive && version < 11) bytes += "Connection: keep-alive\r\n";
  bytes += "\r\n";
  if (!head) bytes += reply.body;
  const bool sent = co_await WriteBytes(std::move(bytes));
  co_return sent&& keep_alive;
}

}  // namespace ingot::gateway
