// Converts grammars to xgrammar's structural tags (https://xgrammar.mlc.ai, version 0.2), which vLLM and SGLang
// accept.
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "proto/tree.pb.h"

namespace ingot::engines {

// Returns the tag as a JSON object. Returns INVALID_ARGUMENT, with a base::Fault that names the part, if the format
// does not support a part (parameters between marks, Python keywords) or if xgrammar ignores a constraint in a JSON
// schema.
absl::StatusOr<base::json::object> StructuralTagOf(const v1::Grammar& grammar);

}  // namespace ingot::engines
