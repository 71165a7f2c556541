#include "gateway/http_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <utility>

#include "base/log.h"
#include "gateway/api/api_error.h"
#include "gateway/http_text.h"

namespace ingot::gateway {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr size_t kReadAheadBytes = 16 * 1024;
constexpr char kKeepAlive[] = ": keep-alive\n\n";  // a comment: no client of SSE shows it to anyone
constexpr char kProcessing[] = "HTTP/1.1 102 Processing\r\n\r\n";
constexpr double kLingerSeconds = 2;  // for a client that does not end its side of TLS

std::string Text(beast::string_view view) { return {view.data(), view.size()}; }

}  // namespace

// Wakes a connection from any thread. Wakes that come before the connection has looked are one.
struct HttpConnection::Waker : std::enable_shared_from_this<Waker> {
  Waker(std::weak_ptr<HttpLoop> of, std::weak_ptr<HttpConnection> whom)
      : loop(std::move(of)), connection(std::move(whom)) {}

  void Wake() {
    const auto running = loop.lock();
    if (running == nullptr || pending.exchange(true)) return;
    asio::post(running->get_executor(), [self = shared_from_this()] {
      self->pending.exchange(false);  // before the connection looks
      const auto woken = self->connection.lock();
      if (woken == nullptr) return;
      woken->woken_ = true;
      woken->signal_.Wake();
    });
  }

  // Neither need be there any more. What is posted to a loop does not hold it: one that comes when the loop runs no
  // more goes with it.
  const std::weak_ptr<HttpLoop> loop;
  const std::weak_ptr<HttpConnection> connection;
  std::atomic<bool> pending{false};
};

HttpConnection::HttpConnection(std::weak_ptr<HttpLoop> loop, LoopSocket socket, const HttpShared& shared)
    : loop_(std::move(loop)),
      shared_(shared),
      options_(shared.options),
      socket_(std::move(socket)),
      timer_(socket_.get_executor()) {
  if (shared_.tls != nullptr) tls_.emplace(socket_, *shared_.tls);
}

// ---- Time ---------------------------------------------------------------------------------------------------------

void HttpConnection::Arm(double seconds) {
  timed_out_ = false;
  deadline_ = Clock::now() + base::FromSeconds(seconds);
  SetTimer();
}

void HttpConnection::SetTimer() {
  const Clock::time_point next = std::min(deadline_, silence_);
  if (next >= timer_at_) return;
  timer_at_ = next;
  timer_.expires_at(next);  // nobody waits for what it was set to before
  timer_.async_wait([weak = weak_from_this()](error_code error) {
    const auto self = weak.lock();
    if (!error && self != nullptr) self->OnTimer();
  });
}

void HttpConnection::OnTimer() {
  const Clock::time_point now = Clock::now();
  timer_at_ = kForever;
  if (deadline_ <= now) {
    deadline_ = kForever;
    timed_out_ = true;
    error_code ignored;
    socket_.cancel(ignored);
  }
  if (silence_ <= now) {
    silence_ = kForever;
    silent_ = true;
  }
  SetTimer();
  if (silent_) signal_.Wake();
}

// ---- Other threads ------------------------------------------------------------------------------------------------

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
    error_code ignored;
    self->socket_.close(ignored);
    self->signal_.Wake();
  });
}

std::function<void()> HttpConnection::MakeWake() {
  if (waker_ == nullptr) waker_ = std::make_shared<Waker>(loop_, weak_from_this());
  return [waker = waker_] { waker->Wake(); };
}

// ---- Watching -----------------------------------------------------------------------------------------------------

// Notices that the client closed while nothing is read. Stops at the first byte of a further request.
void HttpConnection::WatchForClose() {
  if (tls_.has_value()) return ReadAhead();
  if (!gone_ && !half_closed_ && !readable_) Watch();
}

// Notices that there is something to read: bytes, or the end of them.
void HttpConnection::Watch() {
  if (watching_) return;
  watching_ = true;
  read_error_ = {};
  socket_.async_wait(LoopSocket::wait_read, [self = shared_from_this()](error_code error) {
    self->watching_ = false;
    self->read_error_ = error;  // it was closed, or timed out
    if (!error && self->answering_) self->Peek();
    if (!error && !self->answering_) self->readable_ = true;
    self->signal_.Wake();
  });
}

void HttpConnection::Peek() {
  char byte = 0;
  const ssize_t got = ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return Watch();
  (got > 0 ? readable_ : got == 0 ? half_closed_ : gone_) = true;
}

// After a client closed its side: notices that it is gone altogether.
void HttpConnection::WatchForReset() {
  if (watching_for_reset_) return;
  watching_for_reset_ = true;
  socket_.async_wait(LoopSocket::wait_error, [self = shared_from_this()](error_code error) {
    self->watching_for_reset_ = false;
    if (error) return;
    self->gone_ = true;
    self->signal_.Wake();
  });
}

// Over TLS the end of a stream is a message like any other: it is read, and with it what a client sends ahead.
void HttpConnection::ReadAhead() {
  if (reading_ || gone_ || buffer_.size() > 0) return;
  reading_ = true;
  tls_->async_read_some(buffer_.prepare(kReadAheadBytes), [self = shared_from_this()](error_code error, size_t bytes) {
    self->reading_ = false;
    self->buffer_.commit(bytes);
    self->read_error_ = error;
    if (error && error != asio::error::operation_aborted) self->gone_ = true;
    self->signal_.Wake();
  });
}

LoopTask<HttpConnection::Waited> HttpConnection::WaitForProgress(double seconds) {
  WatchForClose();
  silent_ = false;
  silence_ = seconds > 0 ? Clock::now() + base::FromSeconds(seconds) : kForever;
  SetTimer();
  while (!woken_ && !gone_ && !closing_) {
    if (half_closed_ && !probed_) {
      probed_ = true;
      WatchForReset();  // before what may cause one
      const bool sent = !probe_.empty() && co_await WriteBytes(probe_);
      if (!sent) gone_ = true;
      continue;
    }
    if (silent_) co_return Waited::kSilence;
    co_await signal_.Wait();
  }
  silence_ = kForever;
  woken_ = false;
  co_return gone_ || closing_ ? Waited::kGone : Waited::kProgress;
}

// ---- Serving ------------------------------------------------------------------------------------------------------

void HttpConnection::TurnAway(const absl::Status& why) {
  const std::string body = ErrorJson(why);
  const std::string bytes = absl::StrCat("HTTP/1.1 ", HttpStatusOf(why), " Refused\r\n", CommonHeaders(NewRequestId()),
                                         "Content-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\n",
                                         "Content-Length: ", body.size(), "\r\n\r\n", body);
  std::string_view unsent = bytes;
  if (!tls_.has_value()) SendNow(unsent);  // what speaks TLS is closed without a word
  error_code ignored;
  socket_.shutdown(LoopSocket::shutdown_both, ignored);
  socket_.close(ignored);
}

LoopTask<void> HttpConnection::Run() {
  try {
    co_await Serve();
  } catch (const std::exception& error) {
    INGOT_LOG(error, "a connection is closed: {}", error.what());
  }
  error_code ignored;
  timer_.cancel();
  socket_.shutdown(LoopSocket::shutdown_both, ignored);
  socket_.close(ignored);
}

LoopTask<void> HttpConnection::Serve() {
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
    answering_ = true;
    const bool again = co_await Answer(std::move(request));
    answering_ = false;
    if (!again) break;
  }
  if (!tls_.has_value() || closing_ || gone_) co_return;
  Arm(kLingerSeconds);
  while (reading_) {
    socket_.cancel(ignored);
    co_await signal_.Wait();
  }
  co_await tls_->async_shutdown(kAwaitTuple);
  Disarm();
}

LoopTask<bool> HttpConnection::Handshake() {
  Arm(options_.request_timeout_s);
  auto [error] = co_await tls_->async_handshake(asio::ssl::stream_base::server, kAwaitTuple);
  Disarm();
  if (error) INGOT_LOG(debug, "a TLS handshake failed: {}", error.message());
  co_return !error;
}

// ---- Answering ----------------------------------------------------------------------------------------------------

LoopTask<bool> HttpConnection::Answer(Parsed parsed) {
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
LoopTask<bool> HttpConnection::AnswerStream(Exchange& exchange, Exchange::Progress progress, unsigned version,
                                            bool keep_alive) {
  const bool chunked = version >= 11;
  std::string bytes = StreamHead(request_id_, chunked, keep_alive);
  const auto add = [&](std::string_view data, std::string& to) { chunked ? AppendChunk(data, to) : void(to += data); };
  add(kKeepAlive, probe_ = "");
  while (true) {
    if (!progress.data.empty()) add(progress.data, bytes);
    if (progress.done && chunked) bytes += "0\r\n\r\n";
    if (!bytes.empty()) {
      const bool sent = co_await WriteBytes(bytes);
      if (!sent) co_return false;
      bytes.clear();
    }
    if (progress.done) co_return true;
    const Waited waited = co_await WaitForProgress(options_.keepalive_s);
    if (waited == Waited::kGone) co_return false;
    progress = waited == Waited::kSilence ? Exchange::Progress{.reply = {}, .data = kKeepAlive} : exchange.Take();
  }
}

LoopTask<bool> HttpConnection::WriteReply(HttpReply reply, unsigned version, bool keep_alive, bool head) {
  const std::string bytes = ReplyText(reply, request_id_, version, keep_alive, head);
  const bool sent = co_await WriteBytes(bytes);
  co_return sent&& keep_alive;
}

// Nearly always the system takes all of it at once: then there is nothing to wait for, and no deadline to set.
LoopTask<bool> HttpConnection::WriteBytes(std::string_view bytes) {
  if (!tls_.has_value() && !SendNow(bytes)) co_return false;
  if (bytes.empty()) co_return !closing_;
  const auto rest = asio::buffer(bytes.data(), bytes.size());
  Arm(options_.write_timeout_s);
  error_code error;
  if (tls_.has_value()) {
    auto [tls_error, written] = co_await asio::async_write(*tls_, rest, kAwaitTuple);
    error = tls_error;
  } else {
    auto [plain_error, written] = co_await asio::async_write(socket_, rest, kAwaitTuple);
    error = plain_error;
  }
  Disarm();
  co_return !error && !closing_;
}

// Sends what the system takes now, and leaves the rest in `bytes`. False: it can take no more, ever.
bool HttpConnection::SendNow(std::string_view& bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

}  // namespace ingot::gateway
