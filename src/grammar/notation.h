// The keywords and quotation marks with which values are written, as JSON or as Python literals.
#pragma once

#include <span>
#include <string_view>

#include "grammar/chars.h"

namespace ingot::grammar {

struct Notation {
  std::string_view name;  // part of a leaf's name in the LeafPool
  std::string_view null, yes, no;
  std::span<const Spelling> strings;  // every way to write a string
};

inline constexpr Spelling kJsonStrings[] = {Spelling::kJson};
inline constexpr Spelling kPythonStrings[] = {Spelling::kSingleQuoted, Spelling::kDoubleQuoted};
inline constexpr Notation kJsonNotation{"json", "null", "true", "false", kJsonStrings};
inline constexpr Notation kPythonNotation{"python", "None", "True", "False", kPythonStrings};

}  // namespace ingot::grammar
