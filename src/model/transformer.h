// Transformer is the one definition of the model. Rollout and trainer both run it, each with its own attention.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "model/config.h"
#include "model/parameters.h"
#include "model/rope.h"

namespace ingot::model {

// The attention of a layer over keys and values. The trainer's implementation calls tree attention on the packed
// stream. Rollout's writes k and v into the paged cache and attends through block tables.
class AttentionBackend {
 public:
  virtual ~AttentionBackend() = default;
  // q [N, heads, head_dim], k and v [N, kv_heads, head_dim], after QK norm and RoPE. Returns [N, heads, head_dim].
  // Scores are scaled by 1/sqrt(head_dim).
  virtual at::Tensor Attend(int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) = 0;
};

// A model over given parameters (shared, not copied). Immutable, thread safe. It runs on the parameters' device and in
// their dtype. It records autograd history if the parameters require it and grad mode is on.
class Transformer {
 public:
  // `rope`: the tables of another Transformer, shared if they fit; null = new ones.
  static absl::StatusOr<Transformer> Create(const ModelConfig& config, Parameters parameters,
                                            std::shared_ptr<const RopeTables> rope = nullptr);

  const ModelConfig& config() const { return config_; }
  const Parameters& parameters() const { return parameters_; }
  const std::shared_ptr<const RopeTables>& rope() const { return rope_; }

  // token_ids [N] int64, positions [N] int64 -> final hidden states after the last norm, [N, hidden_size]. The rows may
  // be any ragged batch: the attention knows which belong together. On the CPU in fp32, fp64 and bf16 a row's result
  // depends on that row and its attention alone, to the bit. Throws c10::Error on ids or positions out of range.
  at::Tensor Hidden(const at::Tensor& token_ids, const at::Tensor& positions, AttentionBackend& attention) const;

  // The steps of Hidden, for callers that run layer by layer: Embed, then every layer in turn, then Norm.
  at::Tensor Embed(const at::Tensor& token_ids) const;
  // The backward pass of Embed, for callers that use its result without history. Adds to the embedding's .grad.
  void AddEmbedGradient(const at::Tensor& token_ids, const at::Tensor& grad) const;
  at::Tensor RunLayer(int64_t layer, const at::Tensor& x, const at::Tensor& positions,
                      AttentionBackend& attention) const;
  at::Tensor Norm(const at::Tensor& x) const;

  // The matrix from hidden states to logits, [vocab_size, hidden_size]. If tied, it is the embedding.
  const at::Tensor& head() const;
  // [M, hidden_size] -> raw logits [M, vocab_size], fp32 (fp64 from an fp64 model).
  at::Tensor Logits(const at::Tensor& hidden) const;

 private:
  Transformer(const ModelConfig& config, Parameters parameters, std::shared_ptr<const RopeTables> rope);

  ModelConfig config_;
  Parameters parameters_;
  struct Layer;
  std::shared_ptr<const std::vector<Layer>> layers_;
  std::shared_ptr<const RopeTables> rope_;
};

}  // namespace ingot::model
