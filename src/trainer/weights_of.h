// Conversion between parameters and the plain bytes of a published or saved version.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/status.h"
#include "model/parameters.h"
#include "trainer/adamw.h"
#include "weights/snapshot.h"

namespace ingot::trainer {

// Copies the parameters, from any device, and shares the memory of parameters that have memory in `rounded`.
// INVALID_ARGUMENT: a type that versions do not have (fp64).
absl::StatusOr<std::shared_ptr<const weights::Snapshot>> SnapshotOf(
    int64_t version, const std::map<std::string, at::Tensor>& parameters, const weights::CopyOptions& options = {},
    const std::map<std::string, RoundedParameter>& rounded = {});

// `base` and more tensors, as another version that shares the base's memory.
absl::StatusOr<std::shared_ptr<const weights::Snapshot>> SnapshotExtending(
    const std::shared_ptr<const weights::Snapshot>& base, int64_t version,
    const std::map<std::string, at::Tensor>& more);

// The snapshot's tensors, on the CPU, read only. They share its memory and keep it alive.
model::Parameters ParametersOf(const std::shared_ptr<const weights::Snapshot>& snapshot);

}  // namespace ingot::trainer
