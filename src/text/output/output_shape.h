// Helpers shared by the writer of calls and the shapes for constrained sampling. Internal to output formats.
#pragma once

#include <string_view>

#include "base/status.h"
#include "text/output/output_pattern.h"

namespace ingot::text {

// INVALID_ARGUMENT: the pattern `call` cannot contain a tool of this name.
absl::Status CheckName(const CompiledRow& row, std::string_view name, const Program& call);
// UNIMPLEMENTED: the format has no calls.
absl::Status NoCalls(const CompiledRow& row);
// The section to write: the first section or, after content, the first section that is not bare, if any. REQUIRES: the
// row has a section.
const Section& SectionFor(const CompiledRow& row, bool after_content);

}  // namespace ingot::text
