#include "agents/mcp_http.h"

#include <memory>
#include <utility>

#include "absl/strings/str_split.h"
#include "agents/mcp_servers.h"

namespace ingot::agents {
namespace {

constexpr long kConnectMs = 10'000;
constexpr size_t kMostGreeting = 1 << 20;  // bytes of an answer to `initialize`
constexpr size_t kShownBody = 200;

// The state of one request, for libcurl's callbacks.
struct Running {
  const McpRequest& request;
  const McpAnswerSink& sink;
  http::AnswerHead head;
  bool head_given = false, ended_by_sink = false, cancelled = false;
  absl::Status no_socket;
};

size_t OnHeader(char* data, size_t size, size_t count, void* context) {
  auto& running = *static_cast<Running*>(context);
  const bool ended = running.head.Add({data, size * count});
  if (ended && running.head.status >= 200 && !running.head_given) {
    running.head_given = true;
    if (running.sink.on_head) running.sink.on_head(running.head);
  }
  return size * count;
}

size_t OnBody(char* data, size_t size, size_t count, void* context) {
  auto& running = *static_cast<Running*>(context);
  if (running.sink.on_bytes && !running.sink.on_bytes(std::string_view(data, size * count))) {
    running.ended_by_sink = true;
    return 0;
  }
  return size * count;
}

int OnProgress(void* context, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto& running = *static_cast<Running*>(context);
  running.cancelled = running.sink.is_cancelled && running.sink.is_cancelled();
  return running.cancelled ? 1 : 0;
}

curl_socket_t OnSocket(void* context, curlsocktype, curl_sockaddr*) {
  auto& running = *static_cast<Running*>(context);
  auto made = running.request.make_socket();
  if (made.ok()) return made->Release();
  running.no_socket = made.status();
  return CURL_SOCKET_BAD;
}

http::CurlHeaders HeadersOf(const McpRequest& request) {
  http::CurlHeaders headers;
  headers.Add("Expect:");
  for (const auto& [name, text] : request.headers) headers.Add(absl::StrCat(name, ": ", text));
  return headers;
}

absl::Status StatusOf(CURLcode code, const Running& running) {
  if (code == CURLE_OK || running.ended_by_sink) return absl::OkStatus();
  if (running.cancelled) return absl::CancelledError("the request was cancelled");
  if (!running.no_socket.ok()) return running.no_socket;
  const std::string why = absl::StrCat(running.request.url, ": ", curl_easy_strerror(code));
  if (code == CURLE_OPERATION_TIMEDOUT) return absl::DeadlineExceededError(why);
  return absl::UnavailableError(why);
}

// The messages of an answer: its body, or the data of its server-sent events.
absl::Status FindAnswer(const http::AnswerHead& head, const std::string& body) {
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

absl::Status SendMcpRequest(const McpRequest& request, const McpAnswerSink& sink) {
  http::InitCurl();
  const http::CurlHandle owner(curl_easy_init());
  CURL* const curl = owner.get();
  if (curl == nullptr) return absl::ResourceExhaustedError("libcurl has no memory");
  Running running{.request = request, .sink = sink, .head = {}, .no_socket = {}};
  const auto headers = HeadersOf(request);
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, kConnectMs);
  if (request.time_limit.count() > 0) {
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(request.time_limit.count()));
  }
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  if (request.method == "POST") {
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request.body.data());
  } else if (request.method != "GET") {
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, OnHeader);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &running);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, OnBody);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &running);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, OnProgress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &running);
  if (request.make_socket) {
    curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(curl, CURLOPT_IPRESOLVE, static_cast<long>(CURL_IPRESOLVE_V4));
    curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, OnSocket);
    curl_easy_setopt(curl, CURLOPT_OPENSOCKETDATA, &running);
  }
  return StatusOf(curl_easy_perform(curl), running);
}

absl::Status GreetService(McpRequest request) {
  request.method = "GET";
  int status = 0;
  const absl::Status sent = SendMcpRequest(request, {.on_head = [&](http::AnswerHead head) { status = head.status; },
                                                     .on_bytes = [](std::string_view) { return false; },
                                                     .is_cancelled = nullptr});
  if (status == 0) return sent.ok() ? absl::UnavailableError("it answered without a status") : sent;
  if (status < 500) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("it answered with status ", status));
}

absl::Status GreetMcpServer(McpRequest request) {
  request.method = "POST";
  request.body = McpInitialize();
  request.headers["Content-Type"] = "application/json";
  request.headers["Accept"] = "application/json, text/event-stream";
  http::AnswerHead head;
  std::string body;
  absl::Status answer = absl::NotFoundError("no answer");
  const absl::Status sent =
      SendMcpRequest(request, {.on_head = [&](http::AnswerHead given) { head = std::move(given); },
                               .on_bytes =
                                   [&](std::string_view bytes) {
                                     body += bytes;
                                     answer = FindAnswer(head, body);
                                     return absl::IsNotFound(answer) && body.size() < kMostGreeting;
                                   },
                               .is_cancelled = nullptr});
  if (absl::IsNotFound(answer) && !sent.ok()) return sent;
  if (absl::IsNotFound(answer)) {
    const std::string shown = body.substr(0, kShownBody);
    return absl::InternalError(absl::StrCat("it answered `initialize` with status ", head.status, ": ", shown));
  }
  if (const auto session = head.headers.find("mcp-session-id"); session != head.headers.end()) {
    request.method = "DELETE";
    request.body.clear();
    request.headers["Mcp-Session-Id"] = session->second;
    (void)SendMcpRequest(request, {});  // a server may refuse it
  }
  return answer;
}

}  // namespace ingot::agents
