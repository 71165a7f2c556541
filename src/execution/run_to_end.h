#pragma once

#include <string>

#include "base/status.h"
#include "execution/session.h"

namespace ingot::execution {

// Runs a program to its end with a text for stdin, and gathers at most `output_bytes` of output.
absl::StatusOr<sandbox::Outcome> RunToEnd(Session& session, Program program, const std::string& stdin_text,
                                          int64_t output_bytes);

}  // namespace ingot::execution
