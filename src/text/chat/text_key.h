// TextKey: the key of a text. It suffices to tell whether another text equals that text or begins with it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ingot::text {

// The text's content key (base::ContentKey128) and its length in bytes (8 bytes, little-endian).
std::string TextKey(std::string_view text);

struct KeyedText {
  std::string key;                         // TextKey of the whole text
  std::optional<std::string_view> prefix;  // the prefix that has the given key; nullopt: none has
};
// Computes both in one pass over `text`. A `prefix_key` that does not come from TextKey matches nothing.
KeyedText KeyText(std::string_view text, std::string_view prefix_key);

}  // namespace ingot::text
