// Describes a model's files before they are read: names, types, and shapes, from the headers alone. A folder that does
// not match the configuration or fit in memory is rejected before any tensor is allocated.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>

#include "base/status.h"
#include "model/config.h"

namespace ingot::model {

struct StoredTensors {
  std::map<std::string, at::Tensor> tensors;  // on the meta device, without contents
  std::map<std::string, std::string> files;   // the file that contains each tensor
  int64_t bytes = 0;                          // total size of the tensors
};

// Returns the path of a model folder's weights: a file, or the index of its shards.
std::string WeightsOf(const std::string& dir);

// Reads the headers of one file, or of the shards listed in an index (*.json). Same errors as LoadSafetensors
// (parameters.h).
absl::StatusOr<StoredTensors> DescribeSafetensors(const std::string& path);

// Returns RESOURCE_EXHAUSTED if `need` bytes are more than `available`. The error names the files and the largest
// tensor, and gives both numbers.
absl::Status CheckFits(const std::string& path, const StoredTensors& stored, int64_t need, int64_t available);

// Checks a model's file or index for LoadModelDir. Returns INVALID_ARGUMENT, naming the tensor, if one is missing or
// unknown or has the wrong shape. Also returns CheckFits's errors.
absl::Status CheckModelFile(const std::string& path, const ModelConfig& config, int64_t available);

}  // namespace ingot::model
