// A model's output to a message, as a FormatSpec says. Pure functions; linear in the output.
#pragma once

#include <string_view>

#include "text/chat.h"
#include "text/format_spec.h"

namespace ingot::text {

ParsedOutput ParseOutput(const FormatSpec& spec, std::string_view output);

// The longest prefix whose parse (content and reasoning) can no longer change, only grow.
size_t SettledPrefix(const FormatSpec& spec, std::string_view output);

}  // namespace ingot::text
