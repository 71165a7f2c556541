// Errors of the gateway's API. Inside the gateway an error is an absl::Status, whose payload carries the HTTP status,
// the API's error code and the parameter at fault. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace ingot::gateway {

// An error with this HTTP status. `code`: OpenAI's error code, such as "context_length_exceeded". `param`: the
// request's field at fault. Both may be empty.
absl::Status ApiError(int http, std::string_view code, std::string_view param, std::string_view message);
// 400: the request's `param` breaks the API.
absl::Status BadRequest(std::string_view param, std::string_view message);

// The code for a prompt beyond the model's context. Clients react to it by compacting their history.
inline constexpr char kContextLengthExceeded[] = "context_length_exceeded";

// ApiError's code; empty for other errors.
std::string ErrorCodeOf(const absl::Status& status);
// ApiError's param; empty for other errors.
std::string ErrorParamOf(const absl::Status& status);
// The HTTP status of any error: ApiError's, otherwise by its absl code (RESOURCE_EXHAUSTED is 429, ...).
int HttpStatusOf(const absl::Status& status);
// The next two use only the HTTP status, as clients do. It may differ from the absl code, which roles use
// (base/retry.h): an INTERNAL error may be specific to one engine, so a client may retry it, but no role does. True if
// waiting may help; the reply then carries Retry-After.
bool ShouldRetryLater(const absl::Status& status);
// False if the same request would get the same error. The reply says so, because client libraries retry a 409 or 5xx by
// default.
bool MayRetry(const absl::Status& status);
// {"error":{"message":...,"type":...,"code":...,"param":...}}
std::string ErrorJson(const absl::Status& status);

}  // namespace ingot::gateway
