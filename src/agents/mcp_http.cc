#include "agents/mcp_http.h"

#include <curl/curl.h>

#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "agents/mcp_servers.h"

namespace ingot::agents {
namespace {

constexpr long kConnectMs = 10'000;
constexpr size_t kMostGreeting = 1 << 20;  // bytes of an answer to `initialize`
constexpr size_t kShownBody = 200;

// libcurl's own state, made before the first handle and never freed: other code of the process may use it.
void InitCurl() {
  static const CURLcode made = curl_global_init(CURL_GLOBAL_DEFAULT);
  (void)made;
}

struct ListFree {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
struct CurlFree {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
};

// The state of one request, for libcurl's callbacks.
struct Running {
  const McpRequest& request;
  const McpAnswerSink& sink;
  McpAnswerHead head;
  bool head_given = false, ended_by_sink = false, cancelled = false;
  absl::Status no_socket;
};

size_t OnHeader(char* data, size_t size, size_t count, void* context) {
  auto& running = *static_cast<Running*>(context);
  const std::string_view line(data, size * count);
  const size_t colon = line.find(':');
  if (line.starts_with("HTTP/")) {
    running.head = {};  // an answer before was 100 Continue
    const size_t space = line.find(' ');
    if (space != std::string_view::npos)
      running.head.status = std::atoi(std::string(line.substr(space + 1, 3)).c_str());
  } else if (colon != std::string_view::npos) {
    const std::string name = absl::AsciiStrToLower(std::string(line.substr(0, colon)));
    running.head.headers[name] = std::string(absl::StripAsciiWhitespace(base::View(line.substr(colon + 1))));
  } else if (running.head.status >= 200 && !running.head_given) {
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

std::unique_ptr<curl_slist, ListFree> HeadersOf(const McpRequest& request) {
  curl_slist* list = curl_slist_append(nullptr, "Expect:");
  for (const auto& [name, text] : request.headers) {
    list = curl_slist_append(list, absl::StrCat(name, ": ", text).c_str());
  }
  return std::unique_ptr<curl_slist, ListFree>(list);
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
absl::Status FindAnswer(const McpAnswerHead& head, const std::string& body) {
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
  InitCurl();
  const std::unique_ptr<CURL, CurlFree> owner(curl_easy_init());
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

absl::Status GreetMcpServer(McpRequest request) {
  request.method = "POST";
  request.body = McpInitialize();
  request.headers["Content-Type"] = "application/json";
  request.headers["Accept"] = "application/json, text/event-stream";
  McpAnswerHead head;
  std::string body;
  absl::Status answer = absl::NotFoundError("no answer");
  const absl::Status sent =
      SendMcpRequest(request, {.on_head = [&](McpAnswerHead given) { head = std::move(given); },
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
