// Named tensors of one model, under their Hugging Face names, ordered by name. Cheap to copy (tensors are shared).
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

  // Normal(0, 0.02) for matrices, residual projections scaled by 1/sqrt(2 * layers), ones for norms, zeros for biases.
  // The values depend only on (config, seed), not on threads or the order of creation.
  static Parameters Init(const ModelConfig& config, uint64_t seed, at::ScalarType dtype);

  // INVALID_ARGUMENT names the first tensor that is missing, unknown or of the wrong shape.
  static absl::StatusOr<Parameters> FromTensors(const ModelConfig& config, std::map<std::string, at::Tensor> tensors);

  // The names and shapes a model of this configuration has.
  static std::map<std::string, std::vector<int64_t>> Shapes(const ModelConfig& config);

  // INVALID_ARGUMENT names the first tensor that models of the two configurations do not have in common.
  static absl::Status CheckSameShapes(const ModelConfig& expected, const ModelConfig& found);

  const at::Tensor& at(const std::string& name) const;
  const std::map<std::string, at::Tensor>& tensors() const { return tensors_; }
  std::map<std::string, at::Tensor>& tensors() { return tensors_; }

 private:
  std::map<std::string, at::Tensor> tensors_;
};

// safetensors in and out (https://github.com/huggingface/safetensors, format section). Load reads one file or the
// shards a model.safetensors.index.json names; every offset, shape and dtype is checked against the file's size before
// a byte is used: INVALID_ARGUMENT names file and tensor. Save writes to a temporary name, fsyncs and renames.
absl::StatusOr<std::map<std::string, at::Tensor>> LoadSafetensors(const std::string& path);
// The tensors of `into` that one file has, read to where they are; converted on the way where type or device differ.
// Returns the names of all that the file has. INVALID_ARGUMENT, too, for one of another shape; what was read stays.
absl::StatusOr<std::set<std::string>> LoadSafetensorsInto(const std::string& path,
                                                          const std::map<std::string, at::Tensor>& into);
absl::Status SaveSafetensors(const std::string& path, const std::map<std::string, at::Tensor>& tensors,
                             const std::map<std::string, std::string>& metadata);

// A model folder as Hugging Face lays it out: config.json and model.safetensors (or shards).
struct ModelFolder {
  ModelConfig config;
  Parameters parameters;
};
absl::StatusOr<ModelFolder> LoadModelDir(const std::string& dir);
absl::Status SaveModelDir(const std::string& dir, const ModelConfig& config, const Parameters& parameters);

// Such a folder by several writers: each saves a ShardFile of "model", then one the index of what is in which file
// (tensor to file, bytes of all tensors), and last config.json, with which the folder is complete.
inline constexpr char kWeightsIndex[] = "model.safetensors.index.json";
std::string ShardFile(const char* of, int shard, int shards);  // "OF-00001-of-00002.safetensors"; one: "OF.safetensors"
absl::Status SaveWeightsIndex(const std::string& dir, const std::map<std::string, std::string>& files, int64_t bytes);
absl::Status SaveModelConfig(const std::string& dir, const ModelConfig& config);

}  // namespace ingot::model
