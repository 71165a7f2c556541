// What the system allows this process. Internal to the folder.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace ingot::gateway {

// Makes room for `connections` and kOtherFiles open files. RESOURCE_EXHAUSTED says what to set if the system's own
// limit is lower. Never lowers a limit.
absl::Status RaiseFileLimit(int64_t connections);

inline constexpr int64_t kOtherFiles = 512;  // the data pool's, logs, listening sockets

}  // namespace ingot::gateway
