#include "agents/mcp/mcp_http.h"

#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_split.h"
#include "agents/mcp/mcp_servers.h"
#include "http/site_check.h"

namespace ingot::agents {
namespace {

constexpr size_t kMaxGreeting = 1 << 20;  // limit in bytes on the answer to `initialize`
constexpr size_t kShownBody = 200;

// Finds the answer in a response. The answer is either the body or the data in server-sent events.
absl::Status FindAnswer(const http::Answer& head, const std::string& body) {
  const auto type = head.headers.find("content-type");
  if (type == head.headers.end() || !type->second.starts_with("text/event-stream")) return CheckMcpMessage(body);
  for (absl::string_view line : absl::StrSplit(body, '\n')) {
    const std::string_view text(line.data(), line.size());
    if (!text.starts_with("data:")) continue;
    absl::Status answer = CheckMcpMessage(text.substr(5));
    if (!absl::IsNotFound(answer)) return answer;
  }
  return absl::NotFoundError("no answer");
}

}  // namespace

absl::Status GreetService(http::ClientRequest request) {
  int status = 0;
  request.on_head = [&](const http::Answer& head) { status = head.status; };
  request.on_bytes = [](std::string_view) { return false; };
  const absl::Status sent = http::Client().Send(request).status();
  if (status == 0) return base::Annotate(sent, http::HostOfUrl(request.url));
  if (status < 500) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("it answered with status ", status));
}

absl::Status GreetMcpServer(http::ClientRequest request) {
  const std::string question = McpInitialize();
  request.method = "POST";
  request.body = question;
  request.headers["Content-Type"] = "application/json";
  request.headers["Accept"] = "application/json, text/event-stream";
  http::Answer head;
  std::string body;
  absl::Status answer = absl::NotFoundError("no answer");
  request.on_head = [&](http::Answer given) { head = std::move(given); };
  request.on_bytes = [&](std::string_view bytes) {
    body += bytes;
    answer = FindAnswer(head, body);
    return absl::IsNotFound(answer) && body.size() < kMaxGreeting;
  };
  const absl::Status sent = http::Client().Send(request).status();
  if (absl::IsNotFound(answer) && !sent.ok()) return base::Annotate(sent, http::HostOfUrl(request.url));
  if (absl::IsNotFound(answer)) {
    const std::string shown = body.substr(0, kShownBody);
    return absl::InternalError(absl::StrCat("it answered `initialize` with status ", head.status, ": ", shown));
  }
  if (const auto session = head.headers.find("mcp-session-id"); session != head.headers.end()) {
    request.method = "DELETE";
    request.headers["Mcp-Session-Id"] = session->second;
    request.on_head = nullptr;
    request.on_bytes = [](std::string_view) { return true; };
    (void)http::Client().Send(request);  // the server may reject it
  }
  return answer;
}

}  // namespace ingot::agents
