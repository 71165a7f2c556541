// The types of weights that engines take, checked by the headers of a model folder's files alone.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace ingot::model {

// INVALID_ARGUMENT names the file and the tensor of type F64, which can be neither published nor served, and `remedy`.
// OK for a folder without weights. Otherwise fails as DescribeSafetensors (stored_tensors.h).
absl::Status CheckServedTypes(const std::string& dir, std::string_view remedy = "store the model in one of them");

}  // namespace ingot::model
