// The name of a text: whether another one is it, or begins with it, can be told without having it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ingot::text {

// base::ContentKey of the text, and its length in bytes (8, little-endian).
std::string TextKey(std::string_view text);

// The beginning of `text` that `text_key` names; nullopt if it does not begin so, or the key is none of TextKey's.
std::optional<std::string_view> BeginningNamed(std::string_view text, std::string_view text_key);

}  // namespace ingot::text
