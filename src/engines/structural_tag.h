// Grammars in the format of xgrammar's structural tags (https://xgrammar.mlc.ai), which vLLM and SGLang accept. As of
// xgrammar 0.2.
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "proto/tree.pb.h"

namespace ingot::engines {

// Returns the tag as a JSON object. Returns INVALID_ARGUMENT, with a base::Fault that names the part, for a part that
// the format does not have (parameters between marks, Python keywords) and for a JSON schema with a constraint that
// xgrammar ignores.
absl::StatusOr<base::json::object> StructuralTagOf(const v1::Grammar& grammar);

}  // namespace ingot::engines
