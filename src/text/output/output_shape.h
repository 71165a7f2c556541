// Helpers for the call writer and for the shapes used in constrained sampling. Internal to output formats.
#pragma once

#include <string_view>

#include "base/status.h"
#include "text/output/output_pattern.h"

namespace ingot::text {

// Returns INVALID_ARGUMENT if the pattern `call` cannot contain this tool name.
absl::Status CheckName(const CompiledRow& row, std::string_view name, const Program& call);
// Returns the UNIMPLEMENTED error for a format without calls.
absl::Status NoCalls(const CompiledRow& row);
// Returns the section to write: the first section or, after content, the first that is not bare, if any. REQUIRES: the
// row has a section.
const Section& SectionFor(const CompiledRow& row, bool after_content);

}  // namespace ingot::text
