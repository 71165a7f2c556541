// Creates and inspects gateway API errors. The gateway represents an error as an absl::Status with a payload that holds
// the HTTP status, the API's error code, and the parameter at fault. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace ingot::gateway {

// Returns an error with this HTTP status. `code` is OpenAI's error code, such as "context_length_exceeded". `param` is
// the request field at fault. Both may be empty.
absl::Status ApiError(int http, std::string_view code, std::string_view param, std::string_view message);
// Returns a 400 error for the invalid request field `param`.
absl::Status BadRequest(std::string_view param, std::string_view message);

// The error code for a prompt that exceeds the model's context. Clients react to it by compacting their history.
inline constexpr char kContextLengthExceeded[] = "context_length_exceeded";

// Returns the code passed to ApiError, or "" for other errors.
std::string ErrorCodeOf(const absl::Status& status);
// Returns the param passed to ApiError, or "" for other errors.
std::string ErrorParamOf(const absl::Status& status);
// Returns the HTTP status passed to ApiError. Other errors are mapped by absl code, such as RESOURCE_EXHAUSTED to 429.
int HttpStatusOf(const absl::Status& status);
// The next two functions look only at the HTTP status, as clients do. They may disagree with base/retry.h, which uses
// the absl code and is meant for roles. For example, an INTERNAL error may be specific to one engine, so a client may
// retry it but a role does not.
//
// Returns true if a later retry may succeed. The reply then has a Retry-After header.
bool ShouldRetryLater(const absl::Status& status);
// Returns false if the same request would fail the same way. The reply then instructs clients not to retry, because
// client libraries retry 409 and 5xx by default.
bool MayRetry(const absl::Status& status);
// {"error":{"message":...,"type":...,"code":...,"param":...}}
std::string ErrorJson(const absl::Status& status);

}  // namespace ingot::gateway
