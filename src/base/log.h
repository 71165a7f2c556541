// Logging: spdlog behind one header. INGOT_LOG(info, "text {}", value) with spdlog's levels and fmt's format strings.
#pragma once

#include <spdlog/spdlog.h>

#include <string>

#define INGOT_LOG(level, ...) ::spdlog::level(__VA_ARGS__)

namespace ingot::base {

// Sends log lines from `level` (trace, debug, info, warn, error) on to `file`, and warnings to stderr; with no file,
// all of them to stderr. `role` stands in every line. Called once, at start.
void InitLogging(const std::string& role, const std::string& level, const std::string& file);

}  // namespace ingot::base
