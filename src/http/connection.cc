#include "http/connection.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "http/text.h"

namespace ingot::http {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr size_t kReadAheadBytes = 16 * 1024;
constexpr char kProcessing[] = "HTTP/1.1 102 Processing\r\n\r\n";
constexpr double kLingerSeconds = 2;  // for a client that does not start or end its side of TLS
// A reset within this time means that the client closed without reading the response.
constexpr std::chrono::seconds kUnread(5);

// Sends what the system accepts immediately and keeps the remainder in `bytes`. Returns false if the system will not
// accept more.
bool SendNow(LoopSocket& socket, std::string_view& bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

}  // namespace

// Wakes a connection from any thread. Several wakes count as one until the connection checks.
struct Connection::Waker : std::enable_shared_from_this<Waker> {
  Waker(std::weak_ptr<Loop> of, std::weak_ptr<Connection> whom) : loop(std::move(of)), connection(std::move(whom)) {}

  void Wake() {
    const auto running = loop.lock();
    if (running == nullptr || pending.exchange(true)) return;
    asio::post(running->get_executor(), [self = shared_from_this()] {
      self->pending.exchange(false);  // must precede the connection's check
      const auto woken = self->connection.lock();
      if (woken == nullptr) return;
      woken->woken_ = true;
      woken->signal_.Wake();
    });
  }

  // Either may be gone. A posted wake does not keep its loop alive, and a stopped loop drops it.
  const std::weak_ptr<Loop> loop;
  const std::weak_ptr<Connection> connection;
  std::atomic<bool> pending{false};
};

// A connection's socket until it is closed. Used by RequestHead::client_gone. Thread safe.
class Connection::OpenSocket {
 public:
  explicit OpenSocket(int fd) : fd_(fd) {}

  void Close() {
    base::MutexLock lock(mu_);
    fd_ = -1;
  }

  // A client that closed only its sending side is still reading. The connection's probe distinguishes it from a client
  // that is gone, whose system responds to the probe with a reset.
  bool IsGone() {
    for (int waited_ms = 0; waited_ms < kProbeMs; waited_ms += kProbePauseMs) {
      if (waited_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(kProbePauseMs));
      base::MutexLock lock(mu_);
      if (fd_ < 0) return true;
      pollfd events{.fd = fd_, .events = POLLRDHUP, .revents = 0};
      if (poll(&events, 1, 0) <= 0) return false;
      if ((events.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) return true;
    }
    return false;
  }

 private:
  static constexpr int kProbeMs = 1000, kProbePauseMs = 10;
  base::Mutex mu_;
  int fd_ ABSL_GUARDED_BY(mu_);
};

Connection::Connection(std::weak_ptr<Loop> loop, LoopSocket socket, const ServerShared& shared)
    : loop_(std::move(loop)),
      shared_(shared),
      options_(shared.options),
      socket_(std::move(socket)),
      timer_(socket_.get_executor()),
      open_(std::make_shared<OpenSocket>(socket_.native_handle())) {
  if (shared_.tls != nullptr) tls_.emplace(socket_, *shared_.tls);
}

// ---- Time ---------------------------------------------------------------------------------------------------------

void Connection::Arm(double seconds) {
  timed_out_ = false;
  deadline_ = Clock::now() + base::FromSeconds(seconds);
  SetTimer();
}

void Connection::SetTimer() {
  const Clock::time_point next = std::min(deadline_, silence_);
  if (next >= timer_at_) return;
  timer_at_ = next;
  timer_.expires_at(next);  // the wait for the earlier setting ends with an error and does nothing
  timer_.async_wait([weak = weak_from_this()](error_code error) {
    const auto self = weak.lock();
    if (!error && self != nullptr) self->OnTimer();
  });
}

void Connection::OnTimer() {
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

void Connection::Finish() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->finishing_ = true;
    error_code ignored;
    if (self->waiting_) self->socket_.cancel(ignored);
  });
}

void Connection::Close() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->closing_ = true;
    error_code ignored;
    self->open_->Close();
    self->socket_.close(ignored);
    self->signal_.Wake();
  });
}

std::function<void()> Connection::MakeWake() {
  if (waker_ == nullptr) waker_ = std::make_shared<Waker>(loop_, weak_from_this());
  return [waker = waker_] { waker->Wake(); };
}

std::function<bool()> Connection::MakeClientGone() {
  return [open = open_] { return open->IsGone(); };
}

// ---- Watching -----------------------------------------------------------------------------------------------------

// Detects that the client disconnected while nothing is being read. Stops at the first byte of another request.
void Connection::WatchForClose() {
  if (tls_.has_value()) return ReadAhead();
  if (!gone_ && !half_closed_ && !readable_) Watch();
}

// Detects that there is something to read: bytes or the end of the file.
void Connection::Watch() {
  if (watching_) return;
  watching_ = true;
  read_error_ = {};
  socket_.async_wait(LoopSocket::wait_read, [self = shared_from_this()](error_code error) {
    self->watching_ = false;
    self->read_error_ = error;  // the connection was closed or timed out
    if (!error && self->answering_) self->Peek();
    if (!error && !self->answering_) self->readable_ = true;
    self->signal_.Wake();
  });
}

void Connection::Peek() {
  char byte = 0;
  const ssize_t got = ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return Watch();
  (got > 0 ? readable_ : got == 0 ? half_closed_ : gone_) = true;
}

// Detects when a client that closed its sending side is completely gone.
void Connection::WatchForReset() {
  if (watching_for_reset_) return;
  watching_for_reset_ = true;
  socket_.async_wait(LoopSocket::wait_error, [self = shared_from_this()](error_code error) {
    self->watching_for_reset_ = false;
    if (error) return;
    self->gone_ = true;
    self->signal_.Wake();
  });
}

// Over TLS, the end of the client's side is an ordinary record. Reading it may also read pipelined requests.
void Connection::ReadAhead() {
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

LoopTask<Connection::WaitResult> Connection::WaitForProgress(double seconds) {
  WatchForClose();
  silent_ = false;
  silence_ = seconds > 0 ? Clock::now() + base::FromSeconds(seconds) : kForever;
  SetTimer();
  while (!woken_ && !gone_ && !closing_) {
    if (half_closed_ && !probed_) {
      probed_ = true;
      WatchForReset();  // called before the probe, which may cause a reset
      const bool sent = !probe_.empty() && co_await WriteBytes(probe_);
      if (!sent) gone_ = true;
      continue;
    }
    if (silent_) co_return WaitResult::kSilence;
    co_await signal_.Wait();
  }
  silence_ = kForever;
  woken_ = false;
  co_return gone_ || closing_ ? WaitResult::kGone : WaitResult::kProgress;
}

// ---- Serving ------------------------------------------------------------------------------------------------------

LoopTask<void> Connection::RejectAndClose(Rejection why) {
  waiting_ = true;  // nothing is in flight
  try {
    bool shaken = true;
    if (tls_.has_value()) shaken = co_await Handshake(kLingerSeconds);
    if (shaken && !finishing_ && !closing_) co_await Reject(shared_.handler.Reject("", why), false);
  } catch (const std::exception& error) {
    INGOT_LOG(error, "a connection is closed: {}", error.what());
  }
  CloseSocket();
}

void Connection::Drop(const Rejection& why) {
  const std::string bytes = ReplyText(shared_.handler.Reject("", why), 11, false, false);
  std::string_view unsent = bytes;
  if (!tls_.has_value()) SendNow(socket_, unsent);
  CloseSocket();
}

void Connection::CloseSocket() {
  error_code ignored;
  timer_.cancel();
  open_->Close();
  socket_.shutdown(LoopSocket::shutdown_both, ignored);
  socket_.close(ignored);
}

LoopTask<void> Connection::Run(std::shared_ptr<Place> place) {
  place_ = std::move(place);
  try {
    co_await Serve();
  } catch (const std::exception& error) {
    INGOT_LOG(error, "a connection is closed: {}", error.what());
  }
  CloseSocket();
}

LoopTask<void> Connection::Serve() {
  error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  if (tls_.has_value()) {
    const bool shaken = co_await Handshake(HeadSeconds());
    if (!shaken) co_return;
  }
  while (!finishing_ && !closing_) {
    BodyCharge charge(shared_.bodies);
    Request request;
    const Next next = co_await ReadRequest(request, charge);
    if (next == Next::kClose || !place_->Set(Stage::kAnswer)) break;
    answering_ = served_ = true;
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

LoopTask<bool> Connection::Handshake(double seconds) {
  Arm(seconds);
  auto [error] = co_await tls_->async_handshake(asio::ssl::stream_base::server, kAwaitTuple);
  Disarm();
  if (error) INGOT_LOG(debug, "a TLS handshake failed: {}", error.message());
  co_return !error;
}

// ---- Answering ----------------------------------------------------------------------------------------------------

LoopTask<bool> Connection::Answer(Request request) {
  if (request.exchange == nullptr) {
    co_return co_await WriteReply(std::move(request.rejection), request.version, request.keep_alive, request.is_head);
  }
  woken_ = probed_ = false;
  probe_ = request.version >= 11 ? kProcessing : "";
  Exchange& exchange = *request.exchange;
  exchange.Body(std::move(request.body), MakeWake());
  while (true) {
    const WaitResult waited = co_await WaitForProgress();
    if (waited == WaitResult::kGone) {
      exchange.Closed(closing_ ? Side::kServer : Side::kClient);
      co_return false;
    }
    Output output = exchange.Send();
    const bool keep_alive = request.keep_alive && !finishing_;
    if (output.reply.has_value()) {
      co_return co_await WriteReply(*std::move(output.reply), request.version, keep_alive, request.is_head);
    }
    if (output.stream.has_value() && request.is_head) {
      if (!output.done || output.broken) exchange.Closed(Side::kClient);
      const std::string head = StreamText(*output.stream, request.version >= 11, keep_alive);
      const bool sent = co_await WriteBytes(head);
      co_return sent&& keep_alive&& request.version >= 11;
    }
    if (output.stream.has_value()) {
      const bool whole = co_await AnswerStream(exchange, std::move(output), request.version, request.keep_alive);
      if (!whole) exchange.Closed(closing_ ? Side::kServer : Side::kClient);
      co_return whole&& request.keep_alive&& request.version >= 11 && !finishing_;
    }
    if (output.done) co_return false;
  }
}

LoopTask<bool> Connection::AnswerStream(Exchange& exchange, Output output, unsigned version, bool keep_alive) {
  const bool chunked = version >= 11;
  std::string bytes = StreamText(*output.stream, chunked, keep_alive);
  const std::string filler = std::move(output.stream->filler);
  const double silence_s = filler.empty() ? 0 : options_.keepalive_s;
  const auto add = [&](std::string_view data, std::string& to) { chunked ? AppendChunk(data, to) : void(to += data); };
  probe_.clear();
  if (!filler.empty()) add(filler, probe_);
  while (true) {
    if (!output.data.empty()) add(output.data, bytes);
    if (output.done && chunked && !output.broken) AppendLastChunk(bytes);
    if (!bytes.empty()) {
      const bool sent = co_await WriteBytes(bytes);
      if (!sent) co_return false;
      bytes.clear();
    }
    if (output.broken) co_return false;
    if (output.done) co_return true;
    const WaitResult waited = co_await WaitForProgress(silence_s);
    if (waited == WaitResult::kGone) co_return false;
    output = waited == WaitResult::kSilence ? Output{.data = filler} : exchange.Send();
  }
}

LoopTask<bool> Connection::WriteReply(Reply reply, unsigned version, bool keep_alive, bool is_head) {
  const std::string bytes = ReplyText(reply, version, keep_alive, is_head);
  const bool sent = co_await WriteBytes(bytes);
  if (!sent || (reply.unread && IsReset())) {
    DropReply(reply);
    co_return false;
  }
  unread_ = std::move(reply.unread);
  unread_until_ = Clock::now() + kUnread;
  co_return keep_alive;
}

bool Connection::IsReset() {
  char byte = 0;
  const ssize_t got = ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got < 0) return errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR;
  // If a client disconnected before the response arrived, its end of file hides the reset caused by the response.
  tcp_info info{};
  socklen_t size = sizeof(info);
  return getsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_state == TCP_CLOSE;
}

// The system nearly always accepts all bytes at once, so there is nothing to wait for and no deadline to set.
LoopTask<bool> Connection::WriteBytes(std::string_view bytes) {
  if (!tls_.has_value() && !SendNow(socket_, bytes)) co_return false;
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

}  // namespace ingot::http
