#include "gateway/api/api_error.h"

#include <string>

#include "base/json.h"
#include "base/printable.h"

namespace ingot::gateway {
namespace {

constexpr char kPayload[] = "ingot/api-error";  // {"http":..,"code":..,"param":..}

absl::StatusCode CodeOf(int http) {
  switch (http) {
    case 401:
      return absl::StatusCode::kUnauthenticated;
    case 403:
      return absl::StatusCode::kPermissionDenied;
    case 404:
      return absl::StatusCode::kNotFound;
    case 409:
    case 410:
      return absl::StatusCode::kFailedPrecondition;
    case 429:
      return absl::StatusCode::kResourceExhausted;
    case 503:
      return absl::StatusCode::kUnavailable;
    case 504:
      return absl::StatusCode::kDeadlineExceeded;
    default:
      return http >= 500 ? absl::StatusCode::kInternal : absl::StatusCode::kInvalidArgument;
  }
}

int HttpOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kFailedPrecondition:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kUnimplemented:
      return 501;
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

const char* TypeOf(int http) {
  if (http == 401) return "authentication_error";
  if (http == 403) return "permission_error";
  if (http == 429) return "rate_limit_error";
  return http >= 500 ? "server_error" : "invalid_request_error";
}

base::json::value Payload(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  if (!payload.has_value()) return nullptr;
  auto json = base::ParseJson(std::string(*payload));
  return json.ok() ? *std::move(json) : base::json::value(nullptr);
}

base::json::value NullIfMissing(const base::json::value& payload, std::string_view key) {
  const base::json::value* text = base::Find(payload, key);
  if (text == nullptr || !text->is_string() || text->get_string().empty()) return nullptr;
  return *text;
}

std::string TextIn(const base::json::value& payload, std::string_view key) {
  const base::json::value* text = base::Find(payload, key);
  return text != nullptr && text->is_string() ? std::string(text->get_string()) : "";
}

}  // namespace

absl::Status ApiError(int http, std::string_view code, std::string_view param, std::string_view message) {
  absl::Status status(CodeOf(http), base::CutMessage(message));
  base::json::object payload;
  payload["http"] = http;
  payload["code"] = base::json::string_view(code.data(), code.size());
  payload["param"] = base::Shown(param);
  status.SetPayload(kPayload, absl::Cord(base::PrintJson(payload)));
  return status;
}

absl::Status BadRequest(std::string_view param, std::string_view message) { return ApiError(400, "", param, message); }

int HttpStatusOf(const absl::Status& status) {
  if (status.ok()) return 200;
  const base::json::value payload = Payload(status);
  const base::json::value* http = base::Find(payload, "http");
  return http != nullptr && http->is_int64() ? static_cast<int>(http->get_int64()) : HttpOf(status.code());
}

std::string ErrorCodeOf(const absl::Status& status) { return TextIn(Payload(status), "code"); }

std::string ErrorParamOf(const absl::Status& status) { return TextIn(Payload(status), "param"); }

bool MayRetry(const absl::Status& status) {
  const int http = HttpStatusOf(status);
  return http == 408 || http == 429 || http >= 500;
}

bool ShouldRetryLater(const absl::Status& status) {
  const int http = HttpStatusOf(status);
  return http == 429 || http == 503;
}

std::string ErrorJson(const absl::Status& status) {
  const base::json::value payload = Payload(status);
  base::json::object error;
  error["message"] = base::CutMessage({status.message().data(), status.message().size()});
  error["type"] = TypeOf(HttpStatusOf(status));
  error["param"] = NullIfMissing(payload, "param");
  error["code"] = NullIfMissing(payload, "code");
  base::json::object body;
  body["error"] = std::move(error);
  return base::PrintJson(body);
}

}  // namespace ingot::gateway
