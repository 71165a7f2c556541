#include "execution/e2b/connect.h"

#include <cstdint>

#include "absl/strings/numbers.h"
#include "base/utf8.h"
#include "execution/fields.h"

namespace ingot::execution {
namespace {

using base::json::object;
using base::json::value;

struct Code {
  const char* name;
  int status;
};

Code CodeOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
      return {"invalid_argument", 400};
    case absl::StatusCode::kFailedPrecondition:
      return {"failed_precondition", 400};
    case absl::StatusCode::kNotFound:
      return {"not_found", 404};
    case absl::StatusCode::kAlreadyExists:
      return {"already_exists", 409};
    case absl::StatusCode::kPermissionDenied:
      return {"permission_denied", 403};
    case absl::StatusCode::kUnauthenticated:
      return {"unauthenticated", 401};
    case absl::StatusCode::kResourceExhausted:
      return {"resource_exhausted", 429};
    case absl::StatusCode::kDeadlineExceeded:
      return {"deadline_exceeded", 504};
    case absl::StatusCode::kUnimplemented:
      return {"unimplemented", 501};
    case absl::StatusCode::kUnavailable:
      return {"unavailable", 503};
    default:
      return {"internal", 500};
  }
}

object ErrorJson(const absl::Status& status) {
  return {{"code", CodeOf(status.code()).name}, {"message", base::ToUtf8(std::string(status.message()))}};
}

}  // namespace

std::string Envelope(const value& message, char flags) {
  const std::string text = base::PrintJson(message);
  const auto size = static_cast<uint32_t>(text.size());
  std::string envelope(1, flags);
  for (const int shift : {24, 16, 8, 0}) envelope += static_cast<char>(size >> shift);
  return envelope + text;
}

std::string EndEnvelope(const absl::Status& status) {
  object end;
  if (!status.ok()) end["error"] = ErrorJson(status);
  return Envelope(end, kEndOfStream);
}

absl::StatusOr<std::vector<value>> ReadEnvelopes(std::string_view body) {
  std::vector<value> messages;
  while (!body.empty()) {
    if (body.size() < 5) return absl::InvalidArgumentError("the last envelope is incomplete");
    if ((body[0] & 1) != 0) return absl::InvalidArgumentError("compressed messages are not supported");
    uint32_t size = 0;
    for (int i = 1; i < 5; ++i) size = size << 8 | static_cast<uint8_t>(body[i]);
    if (body.size() - 5 < size) return absl::InvalidArgumentError("the last envelope is incomplete");
    if (messages.size() == kMaxMessages)
      return absl::InvalidArgumentError(absl::StrCat("a request may have at most ", kMaxMessages, " messages"));
    INGOT_ASSIGN_OR_RETURN(value message, ParseBody(body.substr(5, size)));
    if ((body[0] & kEndOfStream) == 0) messages.push_back(std::move(message));
    body.remove_prefix(5 + size_t{size});
  }
  return messages;
}

http::Reply ConnectReply(const absl::StatusOr<object>& answer) {
  if (answer.ok()) return {.status = 200, .body = base::PrintJson(*answer)};
  return {.status = CodeOf(answer.status().code()).status, .body = base::PrintJson(ErrorJson(answer.status()))};
}

http::Reply StreamError(const absl::Status& status) {
  return {.status = 200, .content_type = "application/connect+json", .fields = {}, .body = EndEnvelope(status)};
}

absl::Status CheckConnect(const http::RequestHead& head, bool streams) {
  const std::string_view type = head.Find("content-type");
  const std::string_view wanted = streams ? "application/connect+json" : "application/json";
  if (head.method != "POST" || type.substr(0, type.find(';')) != wanted) {
    return absl::InvalidArgumentError(
        absl::StrCat("call this method with POST and Content-Type: ", base::View(wanted)));
  }
  const std::string_view encoding = head.Find(streams ? "connect-content-encoding" : "content-encoding");
  if (encoding.empty() || encoding == "identity") return absl::OkStatus();
  return absl::InvalidArgumentError("compressed messages are not supported");
}

std::chrono::nanoseconds ConnectTimeout(const http::RequestHead& head) {
  int64_t milliseconds = 0;
  if (!absl::SimpleAtoi(base::View(head.Find("connect-timeout-ms")), &milliseconds)) return {};
  return std::chrono::milliseconds(std::clamp<int64_t>(milliseconds, 0, 1'000'000'000));
}

}  // namespace ingot::execution
