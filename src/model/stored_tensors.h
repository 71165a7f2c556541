// StoredTensors describes a model's files before they are read: names, types and shapes, only from the headers. A
// folder that does not fit the configuration or the memory is rejected before any tensor is allocated.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>

#include "base/status.h"
#include "model/config.h"

namespace ingot::model {

struct StoredTensors {
  std::map<std::string, at::Tensor> tensors;  // on torch's meta device: without contents
  std::map<std::string, std::string> files;   // the file of each
  int64_t bytes = 0;                          // of all
};

// Reads the headers of one file, or of the shards that an index (*.json) names. Fails as LoadSafetensors (parameters.h)
// does.
absl::StatusOr<StoredTensors> DescribeSafetensors(const std::string& path);

// RESOURCE_EXHAUSTED if `need` bytes are more than `available`. It names the files, the largest tensor and both
// numbers.
absl::Status CheckFits(const std::string& path, const StoredTensors& stored, int64_t need, int64_t available);

// Checks a model's file or index for LoadModelDir. INVALID_ARGUMENT names the first tensor that is missing, unknown or
// of the wrong shape; RESOURCE_EXHAUSTED as CheckFits.
absl::Status CheckModelFile(const std::string& path, const ModelConfig& config, int64_t available);

}  // namespace ingot::model
