// Finds the first statement that depends on a flag. Chat templates use add_generation_prompt only in their last lines,
// so one rendering with two endings can produce the text with and without a generation prompt.
#pragma once

#include <cstddef>
#include <optional>

#include "text/jinja/ast.h"

namespace ingot::text::jinja {

struct FlagSplit {
  int slot = -1;      // slot of the flag; -1 = the template does not use it
  size_t common = 0;  // number of statements in the template's body before the first one that uses it
};

// Returns nullopt if the statements from the flag onward cannot run twice, because they contain `break` or may change a
// value that they read (they loop, call, filter, or assign to anything but plain names).
std::optional<FlagSplit> SplitAt(const Ast& ast, std::string_view flag);

}  // namespace ingot::text::jinja
