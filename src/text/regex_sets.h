// Sets of characters, written as PCRE2 takes them between [ and ], with the members that Unicode 16.0 gives them.
// Internal to regex_syntax.cc.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ingot::text {

// A code point as an escape.
std::string HexEscape(uint32_t c);
// A general category by its short name (Lu, or L for all letters); none if it is not known.
std::optional<std::string> CategoryItems(std::string_view name);
// A script; the few that tokenizers ask for.
std::optional<std::string> ScriptItems(std::string_view name);
// White_Space.
const std::string& SpaceItems();
// Oniguruma's \w. By itself, but not within a class, it has the superscript digits and fractions of Latin-1.
const std::string& WordItems(bool in_class);

}  // namespace ingot::text
