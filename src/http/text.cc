#include "http/text.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/chunk_encode.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/serializer.hpp>
#include <ctime>

namespace ingot::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace beast_http = boost::beast::http;
using ResponseHead = beast_http::response<beast_http::empty_body>;

// Returns the current time in the form "Sun, 06 Nov 1994 08:49:37 GMT". Updated once per second.
const std::string& HttpDate() {
  thread_local std::time_t written_at = -1;
  thread_local std::string written;
  const std::time_t now = std::time(nullptr);
  if (now == written_at) return written;
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  written.assign(text, std::strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &parts));
  written_at = now;
  return written;
}

ResponseHead NewHead(int status, unsigned version, const std::string& content_type, const Fields& fields) {
  ResponseHead head;
  head.result(static_cast<unsigned>(status));
  head.version(version);
  head.set(beast_http::field::server, "ingot");
  head.set(beast_http::field::date, HttpDate());
  head.set(beast_http::field::content_type, content_type);
  for (const auto& [name, text] : fields) head.insert(name, text);
  return head;
}

template <typename Buffers>
void AppendBuffers(const Buffers& buffers, std::string& out) {
  for (const asio::const_buffer buffer : beast::buffers_range_ref(buffers)) {
    out.append(static_cast<const char*>(buffer.data()), buffer.size());
  }
}

std::string HeadText(const ResponseHead& head) {
  std::string text;
  beast_http::response_serializer<beast_http::empty_body> serializer(head);
  serializer.split(true);
  boost::system::error_code error;
  while (!serializer.is_header_done()) {
    serializer.next(error, [&](boost::system::error_code&, const auto& buffers) {
      AppendBuffers(buffers, text);
      serializer.consume(beast::buffer_bytes(buffers));
    });
  }
  return text;
}

}  // namespace

std::string ReplyText(const Reply& reply, unsigned version, bool keep_alive, bool is_head) {
  ResponseHead head = NewHead(reply.status, version >= 11 ? 11 : 10, reply.content_type, reply.fields);
  head.content_length(reply.body.size());
  head.keep_alive(keep_alive);
  std::string bytes = HeadText(head);
  if (!is_head) bytes += reply.body;
  return bytes;
}

std::string StreamText(const StreamHead& stream, bool chunked, bool keep_alive) {
  ResponseHead head = NewHead(200, 11, stream.content_type, stream.fields);
  head.chunked(chunked);
  head.keep_alive(keep_alive && chunked);
  return HeadText(head);
}

void AppendChunk(std::string_view data, std::string& out) {
  AppendBuffers(beast_http::make_chunk(asio::buffer(data.data(), data.size())), out);
}

void AppendLastChunk(std::string& out) { AppendBuffers(beast_http::make_chunk_last(), out); }

}  // namespace ingot::http
