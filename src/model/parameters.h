// Parameters holds one model's tensors, sorted by Hugging Face name. Cheap to copy, because copies share the tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/config.h"

namespace ingot::model {

class Parameters {
 public:
  Parameters() = default;

  // Returns random parameters: Normal(0, 0.02) for matrices, residual projections scaled by 1/sqrt(2 * layers), ones
  // for norms, zeros for biases. The values depend only on (config, seed), not on threads or creation order.
  static Parameters Init(const ModelConfig& config, uint64_t seed, at::ScalarType dtype);

  // Returns INVALID_ARGUMENT, naming the tensor, if one is missing or unknown or has the wrong shape.
  static absl::StatusOr<Parameters> FromTensors(const ModelConfig& config, std::map<std::string, at::Tensor> tensors);

  // Returns the names and shapes of the tensors in a model with this configuration.
  static std::map<std::string, std::vector<int64_t>> Shapes(const ModelConfig& config);

  // Returns INVALID_ARGUMENT, naming the first tensor that differs between models with the two configurations.
  static absl::Status CheckSameShapes(const ModelConfig& expected, const ModelConfig& found);

  const at::Tensor& at(const std::string& name) const;
  const std::map<std::string, at::Tensor>& tensors() const { return tensors_; }
  std::map<std::string, at::Tensor>& tensors() { return tensors_; }

 private:
  std::map<std::string, at::Tensor> tensors_;
};

// Read and write safetensors (https://github.com/huggingface/safetensors, format section).
//
// Load reads one file, or the shards listed in a model.safetensors.index.json. It checks every offset, shape, and dtype
// against the file's size before it uses any data. INVALID_ARGUMENT names the file and the tensor. Returns DATA_LOSS if
// the file was damaged (base/written_files.h). Save writes to a temporary name, fsyncs, and renames.
absl::StatusOr<std::map<std::string, at::Tensor>> LoadSafetensors(const std::string& path);
// For each tensor in both `into` and the file, reads it into its existing memory, converting it if the type or device
// differs. Returns the names of all tensors in the file. Also returns INVALID_ARGUMENT if a tensor has a different
// shape. Tensors read before the error keep their new contents.
absl::StatusOr<std::set<std::string>> LoadSafetensorsInto(const std::string& path,
                                                          const std::map<std::string, at::Tensor>& into);
absl::Status SaveSafetensors(const std::string& path, const std::map<std::string, at::Tensor>& tensors,
                             const std::map<std::string, std::string>& metadata);

// The contents of a Hugging Face model folder: config.json and model.safetensors (or shards).
struct ModelFolder {
  ModelConfig config;
  Parameters parameters;
};
absl::StatusOr<ModelFolder> LoadModelDir(const std::string& dir);
absl::Status SaveModelDir(const std::string& dir, const ModelConfig& config, const Parameters& parameters);

// Several writers create a model folder in three steps. Each writer saves a ShardFile of "model". One of them saves the
// index, which maps tensors to files and contains the total size of all tensors in bytes. It then saves config.json,
// which completes the folder.
inline constexpr char kWeightsIndex[] = "model.safetensors.index.json";
// Returns "OF-00001-of-00002.safetensors", or "OF.safetensors" for one shard.
std::string ShardFile(const char* of, int shard, int shards);
absl::Status SaveWeightsIndex(const std::string& dir, const std::map<std::string, std::string>& files, int64_t bytes);
absl::Status SaveModelConfig(const std::string& dir, const ModelConfig& config);

}  // namespace ingot::model
