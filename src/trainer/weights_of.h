// Converts between parameters and the plain bytes of a published or saved version.
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

// Tensors whose bytes the host can make without the parameters, by name.
using KnownTensors = std::map<std::string, weights::TensorView>;

// Returns the tensors of `base` that `patches` names, with their changes. A tensor without changes shares the base's
// memory. The result refers to `base` and `patches`.
KnownTensors Patched(const weights::Snapshot& base, const std::map<std::string, weights::TensorPatch>& patches);

// Copies the parameters, and a draft head's tensors (model/draft_head.h), from any device. Shares the memory of
// parameters that have memory in `rounded`. Does not read a parameter that is in `known` with its type and shape.
// Returns INVALID_ARGUMENT for a type that versions do not support (fp64).
absl::StatusOr<std::shared_ptr<const weights::Snapshot>> SnapshotOf(
    int64_t version, const std::map<std::string, at::Tensor>& parameters, const weights::CopyOptions& options = {},
    const std::map<std::string, RoundedParameter>& rounded = {}, const KnownTensors& known = {});

// Returns `base` with additional tensors, as another version that shares the base's memory.
absl::StatusOr<std::shared_ptr<const weights::Snapshot>> SnapshotExtending(
    const std::shared_ptr<const weights::Snapshot>& base, int64_t version,
    const std::map<std::string, at::Tensor>& more);

// Returns the policy's tensors in the snapshot, on the CPU and read-only. They share its memory and keep it alive.
model::Parameters ParametersOf(const std::shared_ptr<const weights::Snapshot>& snapshot);

}  // namespace ingot::trainer
