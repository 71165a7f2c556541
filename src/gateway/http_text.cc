#include "gateway/http_text.h"

#include <boost/beast/http/status.hpp>
#include <ctime>

namespace ingot::gateway {
namespace {

namespace http = boost::beast::http;

// Now, as "Sun, 06 Nov 1994 08:49:37 GMT"; written anew when the second is another.
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

}  // namespace

std::string CommonHeaders(std::string_view request_id) {
  return absl::StrCat("Server: ingot\r\nDate: ", HttpDate(), "\r\nx-request-id: req_", base::View(request_id),
                      "\r\nrequest-id: req_", base::View(request_id), "\r\n");
}

std::string ReplyText(const HttpReply& reply, std::string_view request_id, unsigned version, bool keep_alive,
                      bool head) {
  const auto reason = http::obsolete_reason(http::int_to_status(static_cast<unsigned>(reply.status)));
  std::string bytes =
      absl::StrCat("HTTP/1.", version >= 11 ? 1 : 0, " ", reply.status, " ", base::View({reason.data(), reason.size()}),
                   "\r\n", CommonHeaders(request_id), "Content-Type: ", reply.content_type,
                   "\r\nContent-Length: ", reply.body.size(), "\r\n");
  for (const auto& [name, text] : reply.headers) absl::StrAppend(&bytes, name, ": ", text, "\r\n");
  if (!keep_alive && version >= 11) bytes += "Connection: close\r\n";
  if (keep_alive && version < 11) bytes += "Connection: keep-alive\r\n";
  bytes += "\r\n";
  if (!head) bytes += reply.body;
  return bytes;
}

std::string StreamHead(std::string_view request_id, bool chunked, bool keep_alive) {
  return absl::StrCat(
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\n",
      CommonHeaders(request_id), chunked ? "Transfer-Encoding: chunked\r\n" : "",
      keep_alive && chunked ? "\r\n" : "Connection: close\r\n\r\n");
}

void AppendChunk(std::string_view data, std::string& out) {
  absl::StrAppend(&out, absl::Hex(data.size()), "\r\n", base::View(data), "\r\n");
}

}  // namespace ingot::gateway
