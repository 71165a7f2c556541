// Makes text from models, agents, and tasks safe for a page: valid UTF-8 whose only control characters are newlines and
// tabs. Anything else that a browser or terminal would interpret is escaped as in base/printable.h. Pure function.
#pragma once

#include <string>
#include <string_view>

#include "base/printable.h"

namespace ingot::view {

inline std::string SafeText(std::string_view text) {
  std::string safe;
  size_t begin = 0;
  for (size_t end; (end = text.find_first_of("\n\t", begin)) != std::string_view::npos; begin = end + 1) {
    safe += base::Printable(text.substr(begin, end - begin));
    safe += text[end];
  }
  return safe + base::Printable(text.substr(begin));
}

}  // namespace ingot::view
