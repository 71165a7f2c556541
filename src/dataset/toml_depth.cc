#include "dataset/toml_depth.h"

#include <algorithm>

namespace ingot::dataset {
namespace {

// Returns the end of the string that begins at `at`, on one line or, with """, on several. An unterminated string ends
// at its limit.
size_t EndOfString(std::string_view toml, size_t at) {
  const char quote = toml[at];
  const std::string_view mark = toml.substr(at, 3);
  const bool is_long = mark.size() == 3 && mark[1] == quote && mark[2] == quote;
  for (size_t i = at + (is_long ? 3 : 1); i < toml.size(); ++i) {
    if (toml[i] == '\\' && quote == '"') {
      ++i;
    } else if (is_long ? toml.substr(i).starts_with(mark) : toml[i] == quote || toml[i] == '\n') {
      return toml[i] == '\n' ? i : i + (is_long ? 3 : 1);
    }
  }
  return toml.size();
}

}  // namespace

std::optional<int64_t> LineOfDeepKey(std::string_view toml, int most) {
  constexpr std::string_view kNoKey = "=,[]{}\n";
  int dots = 0;
  for (size_t i = 0; i < toml.size();) {
    if (toml[i] == '"' || toml[i] == '\'') {
      i = EndOfString(toml, i);
      continue;
    }
    if (toml[i] == '#') {
      i = std::min(toml.find('\n', i), toml.size());
      continue;
    }
    if (toml[i] == '.' && ++dots > most) return 1 + std::count(toml.begin(), toml.begin() + static_cast<long>(i), '\n');
    if (kNoKey.find(toml[i]) != std::string_view::npos) dots = 0;
    ++i;
  }
  return std::nullopt;
}

}  // namespace ingot::dataset
