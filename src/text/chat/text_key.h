// Computes keys for strings. A key is enough to check whether another string equals or begins with the original string.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ingot::text {

// Returns the content key (base::ContentKey128) of `text`, followed by its length in bytes (8 bytes, little-endian).
std::string TextKey(std::string_view text);

struct KeyedText {
  std::string key;                         // TextKey of the entire text
  std::optional<std::string_view> prefix;  // the prefix with the given key; nullopt = no such prefix
};
// Computes both fields in one pass over `text`. A `prefix_key` that is not from TextKey never matches.
KeyedText KeyText(std::string_view text, std::string_view prefix_key);

}  // namespace ingot::text
