// Errors as a client of OpenAI's dialects sees them. Inside the gateway an error is an absl::Status; what its code is
// too coarse for (HTTP status, error code, the parameter at fault) travels as a payload. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace ingot::gateway {

// An error of `http` status. `code` is OpenAI's error code ("context_length_exceeded"), `param` the request field at
// fault; either may be empty.
absl::Status ApiError(int http, std::string_view code, std::string_view param, std::string_view message);
// 400: the request's `param` is not what the API says.
absl::Status BadRequest(std::string_view param, std::string_view message);

// What a prompt beyond the model's context is refused with: clients compact their history, none tries it again.
inline constexpr char kContextLengthExceeded[] = "context_length_exceeded";

// ApiError's code; empty for other errors.
std::string ErrorCodeOf(const absl::Status& status);
// The HTTP status of any error: ApiError's own, otherwise by its code (RESOURCE_EXHAUSTED is 429, ...).
int HttpStatusOf(const absl::Status& status);
// True where waiting may help: the reply carries Retry-After.
bool ShouldRetryLater(const absl::Status& status);
// False where the same request would get the same error: the reply says so, since client libraries repeat what is 409
// or 5xx unless told otherwise.
bool MayRetry(const absl::Status& status);
// A copy that shares nothing with `status`, for another thread: Debian's Abseil is not instrumented, so that TSan sees
// two threads releasing one shared status as a race.
absl::Status Unshared(const absl::Status& status);
// {"error":{"message":...,"type":...,"code":...,"param":...}}
std::string ErrorJson(const absl::Status& status);

}  // namespace ingot::gateway
