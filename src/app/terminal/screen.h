// The terminal behind a stream: what it can show, and how a line fits into one of its rows.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

namespace ingot::app {

// All false = no terminal. TERM=dumb in the environment names a terminal that takes no codes at all. NO_COLOR, set and not
// empty, asks for text without colour.
struct Screen {
  bool replaces = false;  // takes codes that draw a line in the place of another
  bool colours = false;
};
Screen ScreenOf(std::FILE* out);

// `text` and behind it `tail`, in one row of the terminal `out`. Too long a text is cut: a line that wraps could not be
// replaced. 80 columns stand for a width that the system does not tell.
std::string Row(std::FILE* out, std::string_view text, std::string_view tail = "");

// The first letters of printable UTF-8 text, as many as `columns` have room for. Letters from U+2E80 on, such as those of
// Chinese, take two. Pure.
std::string_view CutTo(std::string_view text, size_t columns);

}  // namespace ingot::app
