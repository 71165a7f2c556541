// The types of weights that engines accept, checked only by the headers of a model folder's files.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace ingot::model {

// INVALID_ARGUMENT names the file and the tensor of type F64, which cannot be published or served, and `remedy`.
// OK for a folder without weights. Otherwise fails as DescribeSafetensors (stored_tensors.h).
absl::Status CheckServedTypes(const std::string& dir, std::string_view remedy = "store the model in one of them");

}  // namespace ingot::model
