// The Connect protocol with JSON messages, as far as E2B's clients use it (https://connectrpc.com/docs/protocol).
//
//   unary    POST /SERVICE/METHOD, one message; the answer is one, or an error of another status
//   stream   messages in envelopes: a byte of flags, four of size (big-endian), the message. The last envelope has the
//            flag kEndOfStream and {} or {"error"}
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
// The end of a stream, with the error, if any, that ended it.
std::string EndEnvelope(const absl::Status& status);
// The messages of a request's body. INVALID_ARGUMENT: a compressed or incomplete envelope, not JSON, or over
// kMostMessages.
inline constexpr size_t kMostMessages = 4096;
absl::StatusOr<std::vector<base::json::value>> ReadEnvelopes(std::string_view body);

http::Reply ConnectReply(const absl::StatusOr<base::json::object>& answer);
// An error before a stream has begun: the stream's only envelope.
http::Reply StreamError(const absl::Status& status);

// INVALID_ARGUMENT: another encoding than JSON. `streams`: the method's messages come in envelopes.
absl::Status CheckConnect(const http::RequestHead& head, bool streams);
// The field Connect-Timeout-Ms; 0 = missing.
std::chrono::nanoseconds ConnectTimeout(const http::RequestHead& head);

}  // namespace ingot::execution
