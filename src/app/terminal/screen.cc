#include "app/terminal/screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/utf8.h"

namespace ingot::app {
namespace {

constexpr char32_t kFirstWide = 0x2E80;

size_t ColumnsOf(std::FILE* out) {
  winsize size = {};
  return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
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
  const size_t columns = ColumnsOf(out) - 1;  // the last column is left for the cursor
  const std::string_view end = CutTo(tail, columns);
  std::string row(CutTo(text, columns - end.size()));
  return row.append(end);
}

std::string_view CutTo(std::string_view text, size_t columns) {
  size_t bytes = 0;
  for (size_t used = 0, next = 0; bytes < text.size(); bytes = next) {
    used += base::NextCharacter(text, next) >= kFirstWide ? 2 : 1;
    if (used > columns) break;
  }
  return text.substr(0, bytes);
}

}  // namespace ingot::app
