// Sets of characters of Unicode 16.0, in PCRE2's syntax between [ and ]. Internal to regex_syntax.cc.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ingot::text {

// A code point as an escape of PCRE2.
std::string HexEscape(uint32_t c);
// A general category by its short name (Lu, or L for all letters); nullopt: no such category.
std::optional<std::string> CategoryItems(std::string_view name);
// A script; nullopt except for the few scripts that tokenizers use.
std::optional<std::string> ScriptItems(std::string_view name);
// The characters with the property White_Space.
const std::string& SpaceItems();
// Oniguruma's \w. Outside a class, it also has the superscript digits and fractions of Latin-1.
const std::string& WordItems(bool in_class);

}  // namespace ingot::text
