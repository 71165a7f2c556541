// TextKey: the key of a text. The key is enough to check whether another text equals that text or begins with it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ingot::text {

// The text's content key (base::ContentKey128) and its length in bytes (8 bytes, little-endian).
std::string TextKey(std::string_view text);

struct KeyedText {
  std::string key;                         // TextKey of the whole text
  std::optional<std::string_view> prefix;  // the prefix with the given key; nullopt: no such prefix
};
// Computes both in one pass over `text`. A `prefix_key` that does not come from TextKey matches nothing.
KeyedText KeyText(std::string_view text, std::string_view prefix_key);

}  // namespace ingot::text
