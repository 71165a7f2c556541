// Encodes a rank's changes of parameters for rank 0, which takes the snapshot of all ranks' parameters.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/status.h"
#include "trainer/adamw.h"

namespace ingot::trainer {

// Encodes the marks, the values, and the checksums.
std::string EncodeChanges(const std::map<std::string, RoundedParameter>& changes);

// Adds the changes to `all`. Returns DATA_LOSS if the message is damaged.
absl::Status DecodeChanges(std::string_view message, std::map<std::string, RoundedParameter>& all);

}  // namespace ingot::trainer
