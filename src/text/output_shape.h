// What writing calls and framing them have in common. Internal to output formats.
#pragma once

#include <string_view>

#include "base/status.h"
#include "text/output_pattern.h"

namespace ingot::text {

// INVALID_ARGUMENT: `call` cannot hold a tool of this name.
absl::Status CheckName(const CompiledRow& row, std::string_view name, const Program& call);
// UNIMPLEMENTED: the format has no calls.
absl::Status NoCalls(const CompiledRow& row);
// The section to write: the first that may stand anywhere the content ends, or the first at all. REQUIRES: there is
// one.
const Section& SectionFor(const CompiledRow& row, bool after_content);

}  // namespace ingot::text
