// Reads JSONL files: one JSON object per line.
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
  int64_t max_lines = 100'000'000;    // including blank lines; at least 1; a longer file is an error
  absl::Status Validate() const;
};

// Called for each nonblank line with its number (starting at 1), its text without the line ending, and its value.
using LineFn = std::function<absl::Status(int64_t number, std::string_view text, const base::json::value& object)>;

// Reads the file in order, one line at a time. Lines end in \n or \r\n, which the last line may omit. Skips a byte
// order mark at the beginning. Returns NOT_FOUND or UNAVAILABLE if the file cannot be read, and INVALID_ARGUMENT if a
// line is too long or not a JSON object, or if the file has too many lines. An error about a line, including an error
// from `line`, begins with "FILE:LINE: ".
absl::Status ReadJsonl(const std::string& path, const JsonlOptions& options, const LineFn& line);

}  // namespace ingot::dataset
