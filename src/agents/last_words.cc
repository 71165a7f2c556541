#include "agents/last_words.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "base/status.h"

namespace ingot::agents {

std::string LastWords(std::string_view what, std::string_view output) {
  constexpr size_t kShown = 400;
  std::string shown(absl::StripAsciiWhitespace(base::View(output)));
  if (shown.size() > kShown) shown.erase(0, shown.size() - kShown);
  std::replace_if(shown.begin(), shown.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  return shown.empty() ? "" : absl::StrCat("; ", base::View(what), " ends: ", shown);
}

}  // namespace ingot::agents
