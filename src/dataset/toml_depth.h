// toml++ makes a table for each part of a dotted key, and destroys tables by recursion: a key of some ten thousand
// parts ends the process. This check of the text comes first. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ingot::dataset {

// The first line with a key of more than `most` dots; nullopt = none. Strings and comments do not count.
std::optional<int64_t> LineOfDeepKey(std::string_view toml, int most);

}  // namespace ingot::dataset
