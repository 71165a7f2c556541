// The name of a text: whether another one is it, or begins with it, can be told without having it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ingot::text {

// base::ContentKey of the text, and its length in bytes (8, little-endian).
std::string TextKey(std::string_view text);

struct KeyedText {
  std::string key;                            // TextKey of all of it
  std::optional<std::string_view> beginning;  // the one that was named; nullopt: the text does not begin so
};
// Both in one pass over `text`. A `beginning_key` that is none of TextKey's names nothing.
KeyedText KeyText(std::string_view text, std::string_view beginning_key);

}  // namespace ingot::text
