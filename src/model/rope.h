// Rotary position embeddings (RoFormer, arXiv 2104.09864), with the checkpoint's stretch to a longer context. It is
// read as `transformers` reads `rope_parameters` (before version 5: `rope_scaling`).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "model/config.h"

namespace ingot::model {

// Entry i is for dimension pair i of a head. fp32, as in `transformers`: at far positions a wider product would give
// other angles than in the checkpoint's training.
struct RopeFrequencies {
  std::vector<float> inverse;  // [head_dim / 2], radians per position
  float scale = 1;             // factor of every cosine and sine
};
// `local`: of windowed layers, where the configuration has a local_rope_theta.
RopeFrequencies FrequenciesOf(const ModelConfig& config, bool local = false);

// Cosines and sines of every position, in the type and on the device of the model's parameters. Immutable, thread safe.
class RopeTables {
 public:
  RopeTables(const ModelConfig& config, const at::TensorOptions& options);

  // [max_position_embeddings, rotary_dim / 2]. `local`: of windowed layers.
  const at::Tensor& cos(bool local = false) const { return local && local_cos_.defined() ? local_cos_ : cos_; }
  const at::Tensor& sin(bool local = false) const { return local && local_sin_.defined() ? local_sin_ : sin_; }
  // Whether a model of this configuration, type and device has equal tables.
  bool Fit(const ModelConfig& config, const at::TensorOptions& options) const;

 private:
  const RopeFrequencies frequencies_, local_frequencies_;
  at::Tensor cos_, sin_;
  at::Tensor local_cos_, local_sin_;  // undefined = windowed layers use the other layers' tables
};

}  // namespace ingot::model
