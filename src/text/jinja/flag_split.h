// Where in a template a flag begins to matter. Chat templates ask for add_generation_prompt in their last lines only,
// so that the text with and the text without a generation prompt are one rendering with two endings.
#pragma once

#include <cstddef>
#include <optional>

#include "text/jinja/ast.h"

namespace ingot::text::jinja {

struct FlagSplit {
  int slot = -1;      // of the flag; -1: the template does not name it
  size_t common = 0;  // statements of the template's body before the first that names it
};

// nullopt: what stands behind the common statements may change a value that it would find changed when it is run again
// (it loops, calls, filters, assigns to more than plain names), or says `break`.
std::optional<FlagSplit> SplitAt(const Ast& ast, std::string_view flag);

}  // namespace ingot::text::jinja
