// Reader of JSONL files: one JSON object per line.
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
  int64_t max_line_bytes = 64 << 20;  // at least 1; a longer line is an error
  int64_t max_lines = 100'000'000;    // blank lines included; at least 1; a longer file is an error
  absl::Status Validate() const;
};

// Called for each line that is not blank: its number (from 1), its text without the line's end, and its value.
using LineFn = std::function<absl::Status(int64_t number, std::string_view text, const base::json::value& object)>;

// Reads the file in order and holds one line at a time. Lines end in \n or \r\n; the last may lack it. A byte order
// mark at the beginning is skipped. NOT_FOUND or UNAVAILABLE: the file cannot be read. INVALID_ARGUMENT: a line is too
// long or not a JSON object, or the file has too many lines. An error about a line, including an error of `line`,
// begins with "FILE:LINE: ".
absl::Status ReadJsonl(const std::string& path, const JsonlOptions& options, const LineFn& line);

}  // namespace ingot::dataset
