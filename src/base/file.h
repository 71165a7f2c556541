// Whole files as strings.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace ingot::base {

inline constexpr int64_t kMaxFileBytes = int64_t{1} << 30;

// The content of `path`, a file or a pipe. NOT_FOUND: no such file. INVALID_ARGUMENT: a folder, or more than `max_bytes`.
// UNAVAILABLE: the file cannot be read. Errors name the path and the reason.
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes = kMaxFileBytes);

}  // namespace ingot::base
