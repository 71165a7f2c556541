// Checks TOML text before toml++ parses it. toml++ creates a table for each part of a dotted key and destroys tables
// recursively, so a key with about ten thousand parts would crash the process. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ingot::dataset {

// Returns the first line that has a key with more than `most` dots, or nullopt if there is none. Ignores strings and
// comments.
std::optional<int64_t> LineOfDeepKey(std::string_view toml, int most);

}  // namespace ingot::dataset
