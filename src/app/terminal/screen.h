// The terminal of a stream: what it can show, and how a line fits into one of its rows.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

namespace ingot::app {

// All false = not a terminal. TERM=dumb in the environment means a terminal without any codes. NO_COLOR, set and not
// empty, asks for text without color.
struct Screen {
  bool replaces = false;  // supports codes that replace a line
  bool colours = false;
};
Screen ScreenOf(std::FILE* out);

// `text` followed by `tail`, in one row of the terminal `out`. Text that is too long is cut: a wrapped line could not
// be replaced. The width is 80 columns if the system does not report it.
std::string Row(std::FILE* out, std::string_view text, std::string_view tail = "");

// The first letters of printable UTF-8 text, as many as fit into `columns`. Letters from U+2E80 on, such as Chinese,
// take two. Pure.
std::string_view CutTo(std::string_view text, size_t columns);

}  // namespace ingot::app
