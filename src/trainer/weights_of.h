// Parameters as the plain bytes that are published and saved, and back.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/status.h"
#include "model/parameters.h"
#include "weights/snapshot.h"

namespace ingot::trainer {

// A copy, wherever they are. INVALID_ARGUMENT: a type that versions do not have (fp64).
absl::StatusOr<std::shared_ptr<const weights::Snapshot>> SnapshotOf(
    int64_t version, const std::map<std::string, at::Tensor>& parameters);

// The snapshot's tensors, on the CPU and not copied (they keep it): only to be read.
model::Parameters ParametersOf(const std::shared_ptr<const weights::Snapshot>& snapshot);

}  // namespace ingot::trainer
