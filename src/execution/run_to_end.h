#pragma once

#include <string>

#include "base/status.h"
#include "execution/session.h"

namespace ingot::execution {

// Runs a program to completion with `stdin_text` as its stdin, and collects at most `output_bytes` of output. Returns
// CANCELLED, after killing the program, if `cancel` (which may be null) was canceled.
absl::StatusOr<sandbox::Outcome> RunToEnd(Session& session, Program program, const std::string& stdin_text,
                                          int64_t output_bytes, const sandbox::Cancellation* cancel);

}  // namespace ingot::execution
