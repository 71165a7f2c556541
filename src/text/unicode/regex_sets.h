// Returns Unicode 16.0 character sets in PCRE2 syntax, for use between [ and ]. Internal to regex_syntax.cc.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ingot::text {

// Returns a code point as a PCRE2 escape.
std::string HexEscape(uint32_t c);
// Returns a general category by its short name (Lu, or L for all letters), or nullopt if it does not exist.
std::optional<std::string> CategoryItems(std::string_view name);
// Returns a script, or nullopt if it is not one of the few scripts that tokenizers use.
std::optional<std::string> ScriptItems(std::string_view name);
// Returns the characters with the property White_Space.
const std::string& SpaceItems();
// Returns Oniguruma's \w. Outside classes, it also includes the superscript digits and fractions in Latin-1.
const std::string& WordItems(bool in_class);

}  // namespace ingot::text
