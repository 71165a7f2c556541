// A FormatSpec's way of writing turns, parsed. Pure functions; linear in the output.
#pragma once

#include <string_view>

#include "text/chat.h"
#include "text/format_spec.h"
#include "text/output_row.h"

namespace ingot::text {

// The row that undoes what the spec renders.
OutputRow RowOf(const FormatSpec& spec);

ParsedOutput ParseOutput(const FormatSpec& spec, std::string_view output);

// The longest prefix whose parse (content and reasoning) can no longer change, only grow.
size_t SettledPrefix(const FormatSpec& spec, std::string_view output);

}  // namespace ingot::text
