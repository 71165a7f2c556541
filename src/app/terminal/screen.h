// Detects what a stream's terminal can display, and truncates text to one row.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

namespace ingot::app {

// All false = not a terminal. TERM=dumb in the environment disables all escape codes. A nonempty NO_COLOR disables
// color.
struct Screen {
  bool replaces = false;  // supports escape codes that replace a line
  bool colours = false;
};
Screen ScreenOf(std::FILE* out);

// Returns `text` followed by `tail`, truncated to one row of the terminal `out`, because a wrapped line could not be
// replaced. Assumes 80 columns if the system does not report the width.
std::string Row(std::FILE* out, std::string_view text, std::string_view tail = "");

// Returns the longest prefix of printable UTF-8 text that fits in `columns`. Characters starting with U+2E80, such as
// Chinese characters, count as two columns. Pure.
std::string_view CutTo(std::string_view text, size_t columns);

}  // namespace ingot::app
