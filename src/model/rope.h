// Rotary position embeddings (RoFormer, arXiv 2104.09864), with the checkpoint's scaling to a longer context. The
// scaling is interpreted as in `transformers`' `rope_parameters` (before version 5: `rope_scaling`).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "model/config.h"

namespace ingot::model {

// Entry i is for dimension pair i of a head. Uses fp32, as in `transformers`: at large positions, higher precision
// would give angles that differ from those in training.
struct RopeFrequencies {
  std::vector<float> inverse;  // [head_dim / 2], radians per position
  float scale = 1;             // factor for every cosine and sine
};
// `local` = frequencies for windowed layers, if the configuration has a local_rope_theta.
RopeFrequencies FrequenciesOf(const ModelConfig& config, bool local = false);

// Cosines and sines for every position, with the parameters' type and device. Immutable and thread safe.
class RopeTables {
 public:
  RopeTables(const ModelConfig& config, const at::TensorOptions& options);

  // [max_position_embeddings, rotary_dim / 2]. `local` = for windowed layers.
  const at::Tensor& cos(bool local = false) const { return local && local_cos_.defined() ? local_cos_ : cos_; }
  const at::Tensor& sin(bool local = false) const { return local && local_sin_.defined() ? local_sin_ : sin_; }
  // Returns whether a model with this configuration, type, and device has equal tables.
  bool Fit(const ModelConfig& config, const at::TensorOptions& options) const;

 private:
  const RopeFrequencies frequencies_, local_frequencies_;
  at::Tensor cos_, sin_;
  at::Tensor local_cos_, local_sin_;  // undefined = windowed layers use the other layers' tables
};

}  // namespace ingot::model
