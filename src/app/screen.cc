#include "app/screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace ingot::app {
namespace {

constexpr std::string_view kFirstWide = "\xE2\xBA\x80";  // U+2E80; UTF-8 sorts as its letters do

size_t ColumnsOf(std::FILE* out) {
  winsize size = {};
  return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

size_t BytesOf(char first) {
  const auto byte = static_cast<uint8_t>(first);
  return byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
}

}  // namespace

Screen ScreenOf(std::FILE* out) {
  const char* const term = std::getenv("TERM");
  const char* const no_colour = std::getenv("NO_COLOR");
  Screen screen;
  screen.replaces = isatty(fileno(out)) == 1 && (term == nullptr || std::string_view(term) != "dumb");
  screen.colours = screen.replaces && (no_colour == nullptr || *no_colour == '\0');
  return screen;
}

std::string Row(std::FILE* out, std::string_view text, std::string_view tail) {
  const size_t columns = ColumnsOf(out) - 1;  // the cursor stands in the last one
  const std::string_view end = CutTo(tail, columns);
  std::string row(CutTo(text, columns - end.size()));
  return row.append(end);
}

std::string_view CutTo(std::string_view text, size_t columns) {
  size_t bytes = 0;
  for (size_t used = 0; bytes < text.size();) {
    const std::string_view letter = text.substr(bytes, BytesOf(text[bytes]));
    used += letter >= kFirstWide ? 2 : 1;
    if (used > columns) break;
    bytes += letter.size();
  }
  return text.substr(0, bytes);
}

}  // namespace ingot::app
