// Files of one JSON object per line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"

namespace ingot::dataset {

struct JsonlOptions {
  int64_t max_line_bytes = 64 << 20;  // longer lines are an error; at least 1
  int64_t max_lines = 100'000'000;    // of the file, blank ones included; more are an error; at least 1
  absl::Status Validate() const;
};

// Called with each line that is not blank: its number (from 1), its text without the line's end, and its value.
using LineFn = std::function<absl::Status(int64_t number, std::string_view text, const base::json::value& object)>;

// Reads the file in order; holds one line at a time. Lines end in \n or \r\n, the last may lack it; a byte order mark
// at the beginning is skipped. NOT_FOUND or UNAVAILABLE if the file cannot be read; INVALID_ARGUMENT for a line that is
// too long or is no JSON object. Every error, those of `line` too, begins with "FILE:LINE: " where it concerns a line.
absl::Status ReadJsonl(const std::string& path, const JsonlOptions& options, const LineFn& line);

}  // namespace ingot::dataset
