// Configures the program's log, a thin wrapper around spdlog. INGOT_LOG(info, "text {}", value) accepts spdlog's levels
// and fmt's format strings.
#pragma once

#include <spdlog/spdlog.h>

#include <string>

#define INGOT_LOG(level, ...) ::spdlog::level(__VA_ARGS__)

namespace ingot::base {

// Logs lines at `level` (trace, debug, info, warn, error) and above to `file`, and warnings to stderr as well. If
// `file` is empty, all lines go to stderr. Every line contains `role`. Messages are escaped by Printable
// (base/printable.h). Must be called once, at startup.
void InitLogging(const std::string& role, const std::string& level, const std::string& file);

}  // namespace ingot::base
