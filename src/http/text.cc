#include "http/text.h"

#include <boost/beast/http/status.hpp>
#include <ctime>

#include "base/status.h"

namespace ingot::http {
namespace {

namespace beast_http = boost::beast::http;

// Now, as "Sun, 06 Nov 1994 08:49:37 GMT". Written anew once a second.
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

void AppendFields(const Fields& fields, std::string& out) {
  for (const auto& [name, text] : fields) absl::StrAppend(&out, name, ": ", text, "\r\n");
}

}  // namespace

std::string ReplyText(const Reply& reply, unsigned version, bool keep_alive, bool is_head) {
  const auto reason = beast_http::obsolete_reason(beast_http::int_to_status(static_cast<unsigned>(reply.status)));
  std::string bytes =
      absl::StrCat("HTTP/1.", version >= 11 ? 1 : 0, " ", reply.status, " ", base::View({reason.data(), reason.size()}),
                   "\r\nServer: ingot\r\nDate: ", HttpDate(), "\r\nContent-Type: ", reply.content_type,
                   "\r\nContent-Length: ", reply.body.size(), "\r\n");
  AppendFields(reply.fields, bytes);
  if (!keep_alive && version >= 11) bytes += "Connection: close\r\n";
  if (keep_alive && version < 11) bytes += "Connection: keep-alive\r\n";
  bytes += "\r\n";
  if (!is_head) bytes += reply.body;
  return bytes;
}

std::string StreamText(const StreamHead& stream, bool chunked, bool keep_alive) {
  std::string bytes = absl::StrCat("HTTP/1.1 200 OK\r\nServer: ingot\r\nDate: ", HttpDate(),
                                   "\r\nContent-Type: ", stream.content_type, "\r\n");
  AppendFields(stream.fields, bytes);
  absl::StrAppend(&bytes, chunked ? "Transfer-Encoding: chunked\r\n" : "",
                  keep_alive && chunked ? "\r\n" : "Connection: close\r\n\r\n");
  return bytes;
}

void AppendChunk(std::string_view data, std::string& out) {
  absl::StrAppend(&out, absl::Hex(data.size()), "\r\n", base::View(data), "\r\n");
}

void AppendLastChunk(std::string& out) { out += "0\r\n\r\n"; }

}  // namespace ingot::http
