// Implements the parts of the Connect protocol with JSON messages that E2B clients use
// (https://connectrpc.com/docs/protocol).
//
//   unary    POST /SERVICE/METHOD with one message; the response is one message, or an error with a different status
//   stream   messages in envelopes: one byte of flags, four bytes of size (big-endian), the message. The last envelope
//            has the flag kEndOfStream and {} or {"error"}
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "http/handler.h"

namespace ingot::execution {

inline constexpr char kEndOfStream = 2;

std::string Envelope(const base::json::value& message, char flags = 0);
// Returns a stream's last envelope, with the error that ended the stream, if any.
std::string EndEnvelope(const absl::Status& status);
// Returns the messages in a request body. Returns INVALID_ARGUMENT if an envelope is compressed or incomplete, a
// message is not JSON, or there are more than kMaxMessages.
inline constexpr size_t kMaxMessages = 4096;
absl::StatusOr<std::vector<base::json::value>> ReadEnvelopes(std::string_view body);

http::Reply ConnectReply(const absl::StatusOr<base::json::object>& answer);
// Returns the response for an error that occurs before a stream starts: one envelope with the error.
http::Reply StreamError(const absl::Status& status);

// Returns INVALID_ARGUMENT if the encoding is not JSON. `streams` = the method uses envelopes.
absl::Status CheckConnect(const http::RequestHead& head, bool streams);
// Returns the timeout in the Connect-Timeout-Ms header; 0 = no header.
std::chrono::nanoseconds ConnectTimeout(const http::RequestHead& head);

}  // namespace ingot::execution
