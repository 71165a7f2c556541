// Requests of MCP's streamable HTTP transport, by libcurl.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/status.h"
#include "http/curl_parts.h"
#include "sandbox/spawn.h"

namespace ingot::agents {

struct McpRequest {
  std::string method;  // GET, POST, DELETE
  std::string url;
  std::map<std::string, std::string> headers;
  std::string body;
  // Makes the TCP socket that is connected; null = one of this process's network.
  std::function<absl::StatusOr<sandbox::Fd>()> make_socket;
  std::chrono::milliseconds time_limit{0};  // 0 = none
};

// The parts of an answer as they come, on the thread of SendMcpRequest.
struct McpAnswerSink {
  std::function<void(http::AnswerHead head)> on_head;
  std::function<bool(std::string_view bytes)> on_bytes;  // may block; false ends the request
  std::function<bool()> is_cancelled;                    // asked about once a second; null = never
};

// Blocks until the answer has ended. OK: it came whole, or the sink ended it. UNAVAILABLE: nobody answered, or the answer was
// cut; DEADLINE_EXCEEDED: `time_limit`; CANCELLED.
absl::Status SendMcpRequest(const McpRequest& request, const McpAnswerSink& sink);

// Whether whoever listens at `url` answers a GET. UNAVAILABLE: nobody does, or with a status of 500 or above; it may yet.
absl::Status GreetService(McpRequest request);

// Begins a session and ends it again: the server at `url` answers `initialize`. UNAVAILABLE: nobody listens there; it may yet.
// INTERNAL: it answered something else, which the message says.
absl::Status GreetMcpServer(McpRequest request);

}  // namespace ingot::agents
