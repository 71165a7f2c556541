// Text of models, agents and tasks on its way to a page: valid UTF-8 whose only control characters are line ends and tabs.
// Everything else that a browser or terminal would act on is escaped as in base/printable.h. Pure.
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
