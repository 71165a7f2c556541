// The program's log: spdlog behind one header. INGOT_LOG(info, "text {}", value) takes spdlog's levels and fmt's format
// strings.
#pragma once

#include <spdlog/spdlog.h>

#include <string>

#define INGOT_LOG(level, ...) ::spdlog::level(__VA_ARGS__)

namespace ingot::base {

// Sends lines of `level` (trace, debug, info, warn, error) and above to `file`, and warnings to stderr too. An empty
// `file` = all lines to stderr. Every line names `role`. Text of a line is printed as base/printable.h says. Called once,
// at start.
void InitLogging(const std::string& role, const std::string& level, const std::string& file);

}  // namespace ingot::base
