#include "gateway/http_connection.h"

#include <sys/socket.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/chunk_encode.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <cerrno>
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
constexpr auto kForever = asio::steady_timer::time_point::max();
constexpr char kKeepAlive[] = ": keep-alive\n\n";  // a comment: no client of SSE shows it to anyone
constexpr double kLingerSeconds = 2;               // for a client that is still sending what was refused

std::chrono::nanoseconds Seconds(double seconds) {
  return std::chrono::nanoseconds(static_cast<int64_t>(std::min(seconds, 1e9) * 1e9));
}

std::string Text(beast::string_view view) { return {view.data(), view.size()}; }

}  // namespace

HttpConnection::HttpConnection(std::shared_ptr<asio::io_context> loop, Socket socket, const HttpServerOptions& options,
                               HttpApi& api)
    : loop_(std::move(loop)),
      options_(options),
      api_(api),
      socket_(std::move(socket)),
      deadline_(socket_.get_executor()),
      signal_(socket_.get_executor()) {}

void HttpConnection::Arm(double seconds) {
  timed_out_ = false;
  deadline_.expires_after(Seconds(seconds));
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
  const std::string bytes = absl::StrCat("HTTP/1.1 ", HttpStatusOf(why), " Refused\r\nServer: ingot\r\n",
                                         "Content-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\n",
                                         "Content-Length: ", body.size(), "\r\n\r\n", body);
  error_code ignored;
  socket_.non_blocking(true, ignored);
  socket_.write_some(asio::buffer(bytes), ignored);
  socket_.shutdown(Socket::shutdown_both, ignored);
  socket_.close(ignored);
}

// Notices that the client closed while nothing is read. Stops at the first byte of a further request.
void HttpConnection::WatchForClose() {
  if (watching_ || gone_) return;
  watching_ = true;
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](error_code error) {
    self->watching_ = false;
    if (error) return;  // closed or timed out: whoever did it knows
    char byte = 0;
    const ssize_t got = ::recv(self->socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got > 0) return;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return self->WatchForClose();
    self->gone_ = true;
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
  const auto until = seconds > 0 ? std::chrono::steady_clock::now() + Seconds(seconds) : kForever;
  while (!woken_ && !gone_ && !closing_) {
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
  while (!finishing_ && !closing_) {
    Parsed request;
    const Next next = co_await ReadRequest(request);
    if (next == Next::kClose) co_return;
    const bool again = co_await Answer(std::move(request));
    if (!again) co_return;
  }
}

asio::awaitable<HttpConnection::Next> HttpConnection::ReadRequest(Parsed& request) {
  if (buffer_.size() == 0) {
    Arm(options_.idle_timeout_s);
    waiting_ = true;
    auto [error, bytes] = co_await socket_.async_read_some(buffer_.prepare(kReadBytes), kUse);
    waiting_ = false;
    if (error) co_return Next::kClose;
    buffer_.commit(bytes);
  }
  Arm(options_.request_timeout_s);
  http::request_parser<http::string_body> parser;
  parser.header_limit(options_.max_header_bytes);
  parser.body_limit(options_.max_body_bytes);
  auto [error, bytes] = co_await http::async_read_header(socket_, buffer_, parser, kUse);
  if (!error && beast::iequals(parser.get()[http::field::expect], "100-continue")) {
    const bool sent = co_await WriteBytes("HTTP/1.1 100 Continue\r\n\r\n");
    if (!sent) co_return Next::kClose;
    Arm(options_.request_timeout_s);
  }
  if (!error && !parser.is_done()) {
    auto [body_error, body_bytes] = co_await http::async_read(socket_, buffer_, parser, kUse);
    error = body_error;
  }
  Disarm();
  if (!error) {
    request = parser.release();
    co_return Next::kAnswer;
  }
  if (closing_) co_return Next::kClose;
  const std::string target = Text(parser.get().target());  // empty if that was not read
  if (timed_out_) {
    co_await Reject(target,
                    ApiError(408, "request_timeout", "",
                             absl::StrCat("the request did not arrive within ", options_.request_timeout_s, " s")));
  } else if (error == http::error::body_limit) {
    co_await Reject(target, ApiError(413, "body_too_large", "",
                                     absl::StrCat("the request's body is over ", options_.max_body_bytes, " bytes")));
  } else if (error == http::error::header_limit) {
    co_await Reject(target,
                    ApiError(431, "header_too_large", "",
                             absl::StrCat("the request's header is over ", options_.max_header_bytes, " bytes")));
  } else if (error.category() == make_error_code(http::error::bad_method).category() &&
             error != http::error::end_of_stream && error != http::error::partial_message) {
    co_await Reject(target, ApiError(400, "malformed_http", "", "the request is not HTTP/1.1: " + error.message()));
  }
  co_return Next::kClose;
}

// Answers what could not be read, and drops what still comes, so that the client reads the answer instead of a reset.
asio::awaitable<void> HttpConnection::Reject(std::string target, absl::Status why) {
  const bool sent = co_await WriteReply(ErrorReply(target, {}, why, 1), 11, false, false);
  if (!sent) co_return;
  error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  Arm(kLingerSeconds);
  buffer_.clear();
  while (true) {
    auto [error, bytes] = co_await socket_.async_read_some(buffer_.prepare(kReadBytes), kUse);
    if (error) co_return;
  }
}

asio::awaitable<bool> HttpConnection::Answer(Parsed parsed) {
  const unsigned version = parsed.version();
  const bool keep_alive = parsed.keep_alive() && !finishing_;
  const bool head = parsed.method() == http::verb::head;
  HttpRequest request;
  request.method = Text(parsed.method_string());
  request.target = Text(parsed.target());
  request.authorization = Text(parsed[http::field::authorization]);
  request.api_key = Text(parsed["x-api-key"]);
  for (const auto& field : parsed) request.headers.Add(Text(field.name_string()), Text(field.value()));
  request.body = std::move(parsed.body());
  woken_ = false;
  const std::shared_ptr<Exchange> exchange = api_.Start(std::move(request), MakeWake());
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
      "HTTP/1.1 200 OK\r\nServer: ingot\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
      "Cache-Control: no-cache\r\n";
  bytes += chunked ? "Transfer-Encoding: chunked\r\n" : "";
  bytes += keep_alive && chunked ? "\r\n" : "Connection: close\r\n\r\n";
  while (true) {
    if (!progress.data.empty() && chunked) {
      bytes += beast::buffers_to_string(http::make_chunk(asio::buffer(progress.data)));
    } else {
      bytes += progress.data;
    }
    if (progress.done && chunked) bytes += beast::buffers_to_string(http::make_chunk_last());
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

asio::awaitable<bool> HttpConnection::WriteBytes(std::string bytes) {
  Arm(options_.write_timeout_s);
  auto [error, written] = co_await asio::async_write(socket_, asio::buffer(bytes), kUse);
  Disarm();
  co_return !error && !closing_;
}

asio::awaitable<bool> HttpConnection::WriteReply(HttpReply reply, unsigned version, bool keep_alive, bool head) {
  http::response<http::string_body> response;
  response.version(version);
  response.result(static_cast<unsigned>(reply.status));
  response.set(http::field::server, "ingot");
  response.set(http::field::content_type, reply.content_type);
  for (const auto& [name, text] : reply.headers) response.set(name, text);
  response.keep_alive(keep_alive);
  const size_t size = reply.body.size();
  if (!head) response.body() = std::move(reply.body);
  response.content_length(size);
  Arm(options_.write_timeout_s);
  http::response_serializer<http::string_body> serializer(response);
  error_code error;
  if (head) {
    auto [header_error, bytes] = co_await http::async_write_header(socket_, serializer, kUse);
    error = header_error;
  } else {
    auto [write_error, bytes] = co_await http::async_write(socket_, serializer, kUse);
    error = write_error;
  }
  Disarm();
  co_return !error && keep_alive && !closing_;
}

}  // namespace ingot::gateway
