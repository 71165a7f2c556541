// Checks that engines support a model's weight types, reading only the headers of the files in its folder.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace ingot::model {

// Returns INVALID_ARGUMENT, with the file, the tensor, and `remedy`, if a tensor has type F64, which cannot be
// published or served. Returns OK for a folder without weights. Otherwise, returns the same errors as
// DescribeSafetensors (stored_tensors.h).
absl::Status CheckServedTypes(const std::string& dir, std::string_view remedy = "store the model in one of them");

}  // namespace ingot::model
