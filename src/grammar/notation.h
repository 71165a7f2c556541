// Defines the keywords and quotation marks for values written as JSON or as Python literals.
#pragma once

#include <span>
#include <string_view>

#include "grammar/chars.h"

namespace ingot::grammar {

struct Notation {
  std::string_view name;  // part of leaf names in the LeafPool
  std::string_view null, yes, no;
  std::span<const Spelling> strings;  // all ways to write a string
};

inline constexpr Spelling kJsonStrings[] = {Spelling::kJson};
inline constexpr Spelling kPythonStrings[] = {Spelling::kSingleQuoted, Spelling::kDoubleQuoted};
inline constexpr Notation kJsonNotation{"json", "null", "true", "false", kJsonStrings};
inline constexpr Notation kPythonNotation{"python", "None", "True", "False", kPythonStrings};

}  // namespace ingot::grammar
