// Reads requests.
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <cerrno>
#include <iterator>
#include <utility>

#include "base/clock.h"
#include "http/connection.h"
#include "http/text.h"

namespace ingot::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace beast_http = boost::beast::http;
using boost::system::error_code;

constexpr size_t kReadBytes = 16 * 1024;
constexpr size_t kReservedBytes = 1024 * 1024;  // for a body that was announced but has not arrived
constexpr size_t kIdleBytes = 64 * 1024;        // maximum size of an idle connection's buffer
constexpr double kLingerSeconds = 2;            // for a client that is still sending a rejected body

Rejection NoRoom() { return {503, "overloaded", "the bodies of the requests in flight exceed max_buffered_bytes"}; }

std::string Text(beast::string_view view) { return {view.data(), view.size()}; }

}  // namespace

// Waits for the first byte of a request.
LoopTask<error_code> Connection::WaitForRequest() {
  if (!reading_ && buffer_.capacity() > kIdleBytes) buffer_.shrink_to_fit();
  Arm(served_ ? options_.idle_timeout_s : std::min(options_.idle_timeout_s, options_.head_timeout_s));
  waiting_ = true;
  error_code error;
  if (!tls_.has_value()) error = co_await WaitReadable();  // an idle connection needs no buffer
  if (!error) error = co_await ReadMore(kReadBytes);
  waiting_ = false;
  co_return error;
}

LoopTask<error_code> Connection::WaitReadable() {
  while (!readable_ && !half_closed_ && !gone_) {
    Watch();
    co_await signal_.Wait();
    if (!watching_ && read_error_) co_return read_error_;
  }
  co_return timed_out_ ? asio::error::operation_aborted : error_code();
}

error_code Connection::Receive(void* to, size_t most, size_t& got) {
  ssize_t bytes = 0;
  do {
    bytes = ::recv(socket_.native_handle(), to, most, MSG_DONTWAIT);
  } while (bytes < 0 && errno == EINTR);
  readable_ = false;
  got = bytes > 0 ? static_cast<size_t>(bytes) : 0;
  if (bytes < 0) return {errno, boost::system::system_category()};
  return bytes == 0 ? asio::error::eof : error_code();
}

LoopTask<error_code> Connection::ReadMore(size_t most) {
  if (reading_) {
    while (reading_) co_await signal_.Wait();
    co_return buffer_.size() > 0 ? error_code() : read_error_;
  }
  const auto room = buffer_.prepare(most);
  if (tls_.has_value()) {
    auto [error, bytes] = co_await tls_->async_read_some(room, kAwaitTuple);
    buffer_.commit(bytes);
    co_return error;
  }
  size_t got = 0;
  error_code error = Receive(room.data(), room.size(), got);
  while (error == asio::error::would_block) {
    error = co_await WaitReadable();
    if (!error) error = Receive(room.data(), room.size(), got);
  }
  buffer_.commit(got);
  co_return error;
}

LoopTask<error_code> Connection::ReadHeader(Parser& parser) {
  error_code error;
  while (true) {
    if (buffer_.size() > 0) buffer_.consume(parser.put(buffer_.data(), error));
    if (error == beast_http::error::need_more) error = {};
    if (error || parser.is_header_done()) co_return error;
    error = co_await ReadMore(kReadBytes);
    if (error) co_return error;
  }
}

LoopTask<error_code> Connection::Invite(const Parser& parser) {
  if (!beast::iequals(parser.get()[beast_http::field::expect], "100-continue")) co_return error_code();
  const bool sent = co_await WriteBytes("HTTP/1.1 100 Continue\r\n\r\n");
  if (!sent) {
    gone_ = true;
    co_return asio::error::broken_pipe;
  }
  Arm(options_.request_timeout_s);
  co_return error_code();
}

// Charges the body as it arrives rather than when it is announced, because announcing a large body costs a client
// nothing.
LoopTask<error_code> Connection::ReadLength(const Parser& parser, std::string& body, BodyCharge& charge,
                                            std::optional<Rejection>& rejected) {
  const size_t length = parser.content_length().value();
  body.reserve(std::min(length, kReservedBytes));
  bool invited = false;
  while (true) {
    const size_t buffered = std::min(buffer_.size(), length - body.size());
    if (!charge.Cover(static_cast<int64_t>(body.size() + buffered))) rejected = NoRoom();
    if (rejected.has_value()) co_return error_code();
    body.append(static_cast<const char*>(buffer_.data().data()), buffered);
    buffer_.consume(buffered);
    if (body.size() == length) co_return error_code();
    error_code error;
    if (!std::exchange(invited, true)) error = co_await Invite(parser);
    if (!error && tls_.has_value()) error = co_await ReadMore(std::min(length - body.size(), kReadBytes));
    if (!error && !tls_.has_value()) error = co_await ReceiveBody(length, body, charge, rejected);
    if (error) co_return error;
  }
}

// Reads directly into the body's string, which grows by the number of bytes that the socket has.
LoopTask<error_code> Connection::ReceiveBody(size_t length, std::string& body, BodyCharge& charge,
                                             std::optional<Rejection>& rejected) {
  size_t turn = 0;  // bytes read since other connections last had a turn
  bool waited = false;
  while (body.size() < length) {
    int there = 0;
    ::ioctl(socket_.native_handle(), FIONREAD, &there);
    if ((there <= 0 && !waited) || turn >= kReservedBytes) {
      const error_code error = co_await WaitReadable();
      if (error) co_return error;
      waited = true;
      turn = 0;
      continue;
    }
    waited = false;
    // No bytes after a wait means that the client closed its sending side, which is reported when a byte is read.
    const size_t before = body.size(), most = std::min<size_t>(std::max(there, 1), length - before);
    if (!charge.Cover(static_cast<int64_t>(before + most))) {
      rejected = NoRoom();
      co_return error_code();
    }
    size_t got = 0;
    body.resize(before + most);
    const error_code error = Receive(body.data() + before, most, got);
    body.resize(before + got);
    turn += got;
    if (error && error != asio::error::would_block) co_return error;
  }
  co_return error_code();
}

LoopTask<error_code> Connection::ReadChunks(Parser& parser, BodyCharge& charge, std::optional<Rejection>& rejected) {
  parser.eager(true);
  bool invited = false;
  while (true) {
    error_code error;
    if (buffer_.size() > 0) buffer_.consume(parser.put(buffer_.data(), error));
    if (error == beast_http::error::need_more) error = {};
    if (error) co_return error;
    if (!charge.Cover(static_cast<int64_t>(parser.get().body().size()))) rejected = NoRoom();
    if (rejected.has_value() || parser.is_done()) co_return error_code();
    if (buffer_.size() > static_cast<size_t>(options_.max_header_bytes)) {  // limit on a chunk head
      co_return beast_http::error::bad_chunk_extension;
    }
    if (!std::exchange(invited, true)) error = co_await Invite(parser);
    if (!error) error = co_await ReadMore(kReadBytes);
    if (error) co_return error;
  }
}

LoopTask<error_code> Connection::ReadBody(Parser& parser, Request& request, BodyCharge& charge,
                                          std::optional<Rejection>& rejected) {
  parser.body_limit(request.max_body_bytes);
  if (parser.chunked()) {
    const error_code error = co_await ReadChunks(parser, charge, rejected);
    if (!error && !rejected.has_value()) request.body = std::move(parser.get().body());
    co_return error;
  }
  if (parser.content_length().value() > static_cast<uint64_t>(request.max_body_bytes)) {
    co_return beast_http::error::body_limit;
  }
  co_return co_await ReadLength(parser, request.body, charge, rejected);
}

LoopTask<Connection::Next> Connection::ReadRequest(Request& request, BodyCharge& charge) {
  if (buffer_.size() == 0) {
    if (served_ && !place_->Set(Stage::kIdle)) co_return Next::kClose;
    const error_code error = co_await WaitForRequest();
    const auto unread = std::exchange(unread_, nullptr);
    const bool is_reset = error == asio::error::connection_reset || (error == asio::error::eof && IsReset());
    if (unread && is_reset && Clock::now() < unread_until_) unread();
    if (error) co_return Next::kClose;
  }
  unread_ = nullptr;
  if (!place_->Set(Stage::kHead)) co_return Next::kClose;
  Arm(HeadSeconds());
  request.max_body_bytes = options_.max_body_bytes;
  Parser parser;
  parser.header_limit(options_.max_header_bytes);
  parser.body_limit(request.max_body_bytes);
  error_code error = co_await ReadHeader(parser);
  if (!error) Open(parser, request);
  const bool more = !error && !parser.is_done();
  if (more && !place_->Set(Stage::kBody)) co_return Next::kClose;
  if (more && !request.reads_body) {
    Disarm();
    co_await Reject(std::move(request.rejection), request.is_head);
    co_return Next::kClose;
  }
  std::optional<Rejection> rejected;
  if (more) Arm(options_.request_timeout_s);
  if (more) error = co_await ReadBody(parser, request, charge, rejected);
  Disarm();
  if (!rejected.has_value() && !error) co_return Next::kAnswer;
  if (closing_ || gone_) co_return Next::kClose;
  if (!rejected.has_value()) rejected = WhyUnread(error, parser, request);
  if (rejected.has_value()) {
    co_await Reject(shared_.handler.Reject(Text(parser.get().target()), *rejected), request.is_head);
  }
  co_return Next::kClose;
}

void Connection::Open(const Parser& parser, Request& request) {
  const auto& parsed = parser.get();
  request.version = parsed.version();
  request.keep_alive = parsed.keep_alive() && !finishing_;
  request.is_head = parsed.method() == beast_http::verb::head;
  RequestHead head;
  head.method = Text(parsed.method_string());
  head.target = Text(parsed.target());
  if (request.version >= 11 && parsed.count(beast_http::field::host) != 1) {
    const Rejection why = {400, "missing_host", "an HTTP/1.1 request needs exactly one Host header"};
    request.rejection = shared_.handler.Reject(head.target, why);
    return;
  }
  head.fields.reserve(static_cast<size_t>(std::distance(parsed.begin(), parsed.end())));
  for (const auto& field : parsed) head.fields.emplace_back(Text(field.name_string()), Text(field.value()));
  if (const std::optional<Rejection> why = shared_.site.Check(head)) {
    request.rejection = shared_.handler.Reject(head.target, *why);
    request.reads_body = false;
    return;
  }
  head.client_gone = MakeClientGone();
  Opening opening = shared_.handler.Head(std::move(head));
  request.exchange = std::move(opening.exchange);
  request.rejection = std::move(opening.rejection);
  request.reads_body = request.exchange != nullptr;
  if (opening.max_body_bytes >= 0) {
    request.max_body_bytes = std::min(request.max_body_bytes, opening.max_body_bytes);
  }
}

std::optional<Rejection> Connection::WhyUnread(const error_code& error, const Parser& parser,
                                               const Request& request) const {
  if (timed_out_) {
    return Rejection{408, "request_timeout",
                     absl::StrCat("the request did not arrive within ",
                                  parser.is_header_done() ? options_.request_timeout_s : HeadSeconds(), " s")};
  }
  if (error == beast_http::error::body_limit) {
    return Rejection{413, "body_too_large",
                     absl::StrCat("the request's body exceeds ", request.max_body_bytes, " bytes")};
  }
  if (error == beast_http::error::header_limit) {
    return Rejection{431, "header_too_large",
                     absl::StrCat("the request's header exceeds ", options_.max_header_bytes, " bytes")};
  }
  if (error == asio::error::eof && parser.got_some()) {
    return Rejection{400, "incomplete_request", "the client closed its sending side before the end of the request"};
  }
  if (error.category() == make_error_code(beast_http::error::bad_method).category()) {
    return Rejection{400, "malformed_http", "the request is not HTTP/1.1: " + error.message()};
  }
  return std::nullopt;
}

// Discards incoming bytes for a while. If a connection closes while the client is sending, the client may get a reset
// instead of the response.
LoopTask<void> Connection::Reject(Reply reply, bool is_head) {
  const std::string bytes = ReplyText(reply, 11, false, is_head);
  const bool sent = co_await WriteBytes(bytes);
  if (!sent) co_return;
  error_code error;
  if (!tls_.has_value()) socket_.shutdown(LoopSocket::shutdown_send, error);
  const Clock::time_point end = Clock::now() + base::FromSeconds(kLingerSeconds);
  Arm(kLingerSeconds);
  error = {};
  while (!error && Clock::now() < end) {
    buffer_.clear();
    if (!tls_.has_value()) error = co_await WaitReadable();  // lets other connections have a turn
    if (!error) error = co_await ReadMore(kReadBytes);
  }
}

}  // namespace ingot::http
