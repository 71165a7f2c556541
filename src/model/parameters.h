// Parameters are the named tensors of one model, under their Hugging Face names, ordered by name. Cheap to copy: copies
// share the tensors.
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

  // Random parameters: Normal(0, 0.02) for matrices, residual projections scaled by 1/sqrt(2 * layers), ones for norms,
  // zeros for biases. The values depend only on (config, seed), not on threads or the order of creation.
  static Parameters Init(const ModelConfig& config, uint64_t seed, at::ScalarType dtype);

  // INVALID_ARGUMENT names the first tensor that is missing, unknown or of the wrong shape.
  static absl::StatusOr<Parameters> FromTensors(const ModelConfig& config, std::map<std::string, at::Tensor> tensors);

  // The names and shapes of the tensors that a model of this configuration has.
  static std::map<std::string, std::vector<int64_t>> Shapes(const ModelConfig& config);

  // INVALID_ARGUMENT names the first tensor in which models of the two configurations differ.
  static absl::Status CheckSameShapes(const ModelConfig& expected, const ModelConfig& found);

  const at::Tensor& at(const std::string& name) const;
  const std::map<std::string, at::Tensor>& tensors() const { return tensors_; }
  std::map<std::string, at::Tensor>& tensors() { return tensors_; }

 private:
  std::map<std::string, at::Tensor> tensors_;
};

// Reading and writing of safetensors (https://github.com/huggingface/safetensors, format section).
//
// Load reads one file, or the shards that a model.safetensors.index.json names. It checks every offset, shape and dtype
// against the file's size before it uses a byte; INVALID_ARGUMENT names the file and the tensor. DATA_LOSS: it differs
// from what was written (base/written_files.h). Save writes to a temporary name, calls fsync and renames.
absl::StatusOr<std::map<std::string, at::Tensor>> LoadSafetensors(const std::string& path);
// Reads the tensors of `into` that the file has into their memory, converted if type or device differ. Returns the
// names of all tensors of the file. INVALID_ARGUMENT also for a tensor of another shape; tensors read before it keep
// their new contents.
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

// Several writers make such a folder in three steps. Each saves a ShardFile of "model". One saves the index, which maps
// tensors to files and gives the bytes of all tensors. Last it saves config.json, which completes the folder.
inline constexpr char kWeightsIndex[] = "model.safetensors.index.json";
// "OF-00001-of-00002.safetensors"; for one shard "OF.safetensors".
std::string ShardFile(const char* of, int shard, int shards);
absl::Status SaveWeightsIndex(const std::string& dir, const std::map<std::string, std::string>& files, int64_t bytes);
absl::Status SaveModelConfig(const std::string& dir, const ModelConfig& config);

}  // namespace ingot::model
