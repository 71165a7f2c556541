// Finds the first statement that depends on a flag. Chat templates read add_generation_prompt only in their last lines,
// so the texts with and without a generation prompt are one rendering with two endings.
#pragma once

#include <cstddef>
#include <optional>

#include "text/jinja/ast.h"

namespace ingot::text::jinja {

struct FlagSplit {
  int slot = -1;      // of the flag; -1 = the template does not name it
  size_t common = 0;  // statements of the template's body before the first that names it
};

// nullopt: the statements from the flag on cannot be run twice, since they may change a value that they read (they loop,
// call, filter or assign to more than plain names) or contain `break`.
std::optional<FlagSplit> SplitAt(const Ast& ast, std::string_view flag);

}  // namespace ingot::text::jinja
