// The program's log, a wrapper of spdlog. INGOT_LOG(info, "text {}", value) takes spdlog's levels and fmt's format
// strings.
#pragma once

#include <spdlog/spdlog.h>

#include <string>

#define INGOT_LOG(level, ...) ::spdlog::level(__VA_ARGS__)

namespace ingot::base {

// Sends lines of `level` (trace, debug, info, warn, error) and above to `file`, and warnings to stderr too. An empty
// `file` sends all lines to stderr. Every line names `role`. Printable (base/printable.h) escapes a line's text. Call
// it once, at start.
void InitLogging(const std::string& role, const std::string& level, const std::string& file);

}  // namespace ingot::base
