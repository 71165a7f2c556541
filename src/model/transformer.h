// Transformer is the only definition of the model. Rollout and the trainer both run it, each with its own attention.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "model/attention_backend.h"
#include "model/block.h"
#include "model/config.h"
#include "model/layer_spec.h"
#include "model/parameters.h"
#include "model/rope.h"

namespace ingot::model {

// A model that shares the given parameters without copying them. Immutable and thread safe. Runs on the parameters'
// device and in their dtype. Records autograd history if the parameters require it and grad mode is on.
class Transformer {
 public:
  // `rope` has another Transformer's tables, which are shared if they match. Null = create new ones.
  static absl::StatusOr<Transformer> Create(const ModelConfig& config, Parameters parameters,
                                            std::shared_ptr<const RopeTables> rope = nullptr);

  const ModelConfig& config() const { return config_; }
  const LayerSpec& layer(int64_t index) const { return (*blocks_)[static_cast<size_t>(index)].spec(); }
  const Parameters& parameters() const { return parameters_; }
  const std::shared_ptr<const RopeTables>& rope() const { return rope_; }

  // token_ids [N] int64, positions [N] int64 -> final hidden states after the last norm, [N, hidden_size]. The rows may
  // be any ragged batch, because the attention determines which rows belong together. On the CPU in fp32, fp64, and
  // bf16, a row's result depends only on that row and its attention, bit for bit. Throws c10::Error if ids or positions
  // are out of range.
  at::Tensor Hidden(const at::Tensor& token_ids, const at::Tensor& positions, AttentionBackend& attention) const;

  // The steps of Hidden, for callers that run layer by layer: Embed, then every layer in turn, then Norm.
  at::Tensor Embed(const at::Tensor& token_ids) const;
  // The backward pass of Embed, for callers that use its result without history. Adds to the embedding's .grad.
  void AddEmbedGradient(const at::Tensor& token_ids, const at::Tensor& grad) const;
  at::Tensor RunLayer(int64_t layer, const at::Tensor& x, const at::Tensor& positions, AttentionBackend& attention,
                      Aux* aux = nullptr) const;
  at::Tensor Norm(const at::Tensor& x) const;

  // Returns the matrix from hidden states to logits, [vocab_size, hidden_size]. If tied, it is the embedding.
  const at::Tensor& head() const;
  // [M, hidden_size] -> raw logits [M, vocab_size], fp32 (fp64 from an fp64 model). Capped if the model caps them.
  at::Tensor Logits(const at::Tensor& hidden) const;

 private:
  Transformer(const ModelConfig& config, Parameters parameters, std::shared_ptr<const RopeTables> rope);

  at::Tensor EmbedScale() const;
  at::Tensor NormWeight() const;

  ModelConfig config_;
  Parameters parameters_;
  std::shared_ptr<const std::vector<Block>> blocks_;
  std::shared_ptr<const RopeTables> rope_;
};

}  // namespace ingot::model
