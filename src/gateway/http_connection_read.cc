// How a connection reads requests.
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <cerrno>
#include <utility>

#include "gateway/api/api_error.h"
#include "gateway/http_connection.h"

namespace ingot::gateway {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr size_t kReadBytes = 16 * 1024;
constexpr size_t kReservedBytes = 1024 * 1024;  // of a body, for no more than its announcement
constexpr size_t kKeptBytes = 64 * 1024;        // of a connection's buffer, between requests
constexpr double kLingerSeconds = 2;            // for a client that is still sending what was refused

absl::Status NoRoom() {
  return ApiError(503, "overloaded", "", "the bodies of the requests in flight fill max_buffered_bytes");
}

}  // namespace

// The first byte of a request.
LoopTask<error_code> HttpConnection::WaitForRequest() {
  if (!reading_ && buffer_.capacity() > kKeptBytes) buffer_.shrink_to_fit();
  Arm(options_.idle_timeout_s);
  waiting_ = true;
  error_code error;
  if (!tls_.has_value()) error = co_await WaitReadable();  // an idle connection needs no buffer
  if (!error) error = co_await ReadMore(kReadBytes);
  waiting_ = false;
  co_return error;
}

LoopTask<error_code> HttpConnection::WaitReadable() {
  while (!readable_ && !half_closed_ && !gone_) {
    Watch();
    co_await signal_.Wait();
    if (!watching_ && read_error_) co_return read_error_;
  }
  co_return timed_out_ ? asio::error::operation_aborted : error_code();
}

// What has come, without waiting: would_block is an error like others.
error_code HttpConnection::Receive(void* to, size_t most, size_t& got) {
  ssize_t bytes = 0;
  do {
    bytes = ::recv(socket_.native_handle(), to, most, MSG_DONTWAIT);
  } while (bytes < 0 && errno == EINTR);
  readable_ = false;
  got = bytes > 0 ? static_cast<size_t>(bytes) : 0;
  if (bytes < 0) return {errno, boost::system::system_category()};
  return bytes == 0 ? asio::error::eof : error_code();
}

LoopTask<error_code> HttpConnection::ReadMore(size_t most) {
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

LoopTask<error_code> HttpConnection::ReadHeader(Parser& parser) {
  error_code error;
  while (true) {
    if (buffer_.size() > 0) buffer_.consume(parser.put(buffer_.data(), error));
    if (error == http::error::need_more) error = {};
    if (error || parser.is_header_done()) co_return error;
    error = co_await ReadMore(kReadBytes);
    if (error) co_return error;
  }
}

// Tells a client that waits for it to send its body.
LoopTask<error_code> HttpConnection::Invite(const Parser& parser) {
  if (!beast::iequals(parser.get()[http::field::expect], "100-continue")) co_return error_code();
  const bool sent = co_await WriteBytes("HTTP/1.1 100 Continue\r\n\r\n");
  if (!sent) {
    gone_ = true;
    co_return asio::error::broken_pipe;
  }
  Arm(options_.request_timeout_s);
  co_return error_code();
}

// It is charged as it comes, not as it is announced: announcing costs a client nothing.
LoopTask<error_code> HttpConnection::ReadBody(const Parser& parser, std::string& body, Charge& charge,
                                              absl::Status& refused) {
  const size_t length = parser.content_length().value();
  body.reserve(std::min(length, kReservedBytes));
  bool invited = false;
  while (true) {
    const size_t held = std::min(buffer_.size(), length - body.size());
    if (!charge.Cover(static_cast<int64_t>(body.size() + held))) refused = NoRoom();
    if (!refused.ok()) co_return error_code();
    body.append(static_cast<const char*>(buffer_.data().data()), held);
    buffer_.consume(held);
    if (body.size() == length) co_return error_code();
    error_code error;
    if (!std::exchange(invited, true)) error = co_await Invite(parser);
    if (!error && tls_.has_value()) error = co_await ReadMore(std::min(length - body.size(), kReadBytes));
    if (!error && !tls_.has_value()) error = co_await ReceiveBody(length, body, charge, refused);
    if (error) co_return error;
  }
}

// Straight into the body's own string, which grows by what has come.
LoopTask<error_code> HttpConnection::ReceiveBody(size_t length, std::string& body, Charge& charge,
                                                 absl::Status& refused) {
  size_t turn = 0;  // bytes read since others had theirs
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
    // Where nothing has come after a wait it is the end, which shows when a byte is asked for.
    const size_t before = body.size(), most = std::min<size_t>(std::max(there, 1), length - before);
    if (!charge.Cover(static_cast<int64_t>(before + most))) {
      refused = NoRoom();
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

LoopTask<error_code> HttpConnection::ReadChunks(Parser& parser, Charge& charge, absl::Status& refused) {
  parser.eager(true);
  bool invited = false;
  while (true) {
    error_code error;
    if (buffer_.size() > 0) buffer_.consume(parser.put(buffer_.data(), error));
    if (error == http::error::need_more) error = {};
    if (error) co_return error;
    if (!charge.Cover(static_cast<int64_t>(parser.get().body().size()))) refused = NoRoom();
    if (!refused.ok() || parser.is_done()) co_return error_code();
    if (buffer_.size() > static_cast<size_t>(options_.max_header_bytes)) {  // of a chunk's header, which has no end
      co_return http::error::bad_chunk_extension;
    }
    if (!std::exchange(invited, true)) error = co_await Invite(parser);
    if (!error) error = co_await ReadMore(kReadBytes);
    if (error) co_return error;
  }
}

LoopTask<HttpConnection::Next> HttpConnection::ReadRequest(Parsed& request, Charge& charge) {
  if (buffer_.size() == 0) {
    const error_code error = co_await WaitForRequest();
    if (error) co_return Next::kClose;
  }
  Arm(options_.request_timeout_s);
  Parser parser;
  parser.header_limit(options_.max_header_bytes);
  parser.body_limit(options_.max_body_bytes);
  std::string body;  // of a length that was announced; others are the parser's
  absl::Status refused;
  error_code error = co_await ReadHeader(parser);
  const bool more = !error && !parser.is_done();
  if (more && parser.chunked()) error = co_await ReadChunks(parser, charge, refused);
  if (more && !parser.chunked()) error = co_await ReadBody(parser, body, charge, refused);
  Disarm();
  if (refused.ok() && !error) {
    request = parser.release();
    if (!body.empty()) request.body() = std::move(body);
    co_return Next::kAnswer;
  }
  if (closing_ || gone_) co_return Next::kClose;
  if (refused.ok()) refused = WhyUnread(error, parser.got_some());
  const auto target = parser.get().target();  // empty if that was not read
  if (!refused.ok()) co_await Reject({target.data(), target.size()}, std::move(refused));
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
LoopTask<void> HttpConnection::Reject(std::string target, absl::Status why) {
  request_id_ = NewRequestId();
  const bool sent = co_await WriteReply(ErrorReply(target, {}, why, 1), 11, false, false);
  if (!sent) co_return;
  error_code error;
  if (!tls_.has_value()) socket_.shutdown(LoopSocket::shutdown_send, error);
  Arm(kLingerSeconds);
  do {
    buffer_.clear();
    error = co_await ReadMore(kReadBytes);
  } while (!error);
}

}  // namespace ingot::gateway
