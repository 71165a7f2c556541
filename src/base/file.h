// Reads files whole.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace ingot::base {

inline constexpr int64_t kMaxFileBytes = int64_t{1} << 30;

// What stands in `path`, which may be a pipe too. NOT_FOUND: there is no such file. INVALID_ARGUMENT: it is a folder,
// or has over `max_bytes`. UNAVAILABLE: it cannot be read. Errors name the path and the reason.
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes = kMaxFileBytes);

}  // namespace ingot::base
