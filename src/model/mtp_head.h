// The prediction layers with which DeepSeek-V3, GLM-4.5, and Qwen3-Next are published (multi-token prediction,
// DeepSeek-V3, arXiv 2412.19437, section 2.2). Unlike a DraftHead, each is a whole layer of the model's family, with
// attention. Layer k, from 0, predicts the token that is k + 2 after the last one that the policy has read:
//
//   x   = projection [norm(embedding of token j) | norm(state of j's parent)]
//   out = norm(layer(x))                                                         q for the token after j = head(out)
//
// The state is the policy's hidden state after its last norm for layer 0, and `out` of layer k - 1 for layer k. Rows
// are shifted as in DraftHead: row j has token j's position and sees the rows of j's ancestors. The first k + 1 tokens
// of a sequence have no row in layer k. The embedding and the output matrix are the policy's.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/attention_backend.h"
#include "model/config.h"
#include "model/draft_head.h"
#include "model/parameters.h"
#include "model/transformer.h"

namespace ingot::model {

// Prediction layers by their published names. Families may also store copies of the policy's embedding and head.
using MtpTensors = std::map<std::string, at::Tensor>;

class MtpHead {
 public:
  // Shares `tensors` and the tensors of `policy`; converts tensors of another type or device to the policy's. Returns
  // INVALID_ARGUMENT, naming the tensor, if one is missing or unknown or has the wrong shape, or if the policy's family
  // has no prediction layers.
  static absl::StatusOr<MtpHead> Create(const MtpTensors& tensors, const Transformer& policy);

  int64_t layers() const { return static_cast<int64_t>(layers_->size()); }
  const LayerSpec& spec(int64_t layer) const { return layers_->at(static_cast<size_t>(layer)).block.spec(); }
  // Computes one layer. state [rows, hidden_size], ids [rows] int64, positions [rows] int64 -> [rows, hidden_size].
  // `attention` is called with layer number num_hidden_layers + layer. Same guarantee for bits as Transformer::Hidden.
  at::Tensor Hidden(int64_t layer, const at::Tensor& state, const at::Tensor& ids, const at::Tensor& positions,
                    AttentionBackend& attention) const;
  // The result of Hidden -> logits [rows, vocab_size], as for Transformer::Logits.
  at::Tensor Logits(const at::Tensor& hidden) const { return policy_.Logits(hidden); }

 private:
  struct Layer {
    at::Tensor embedding_norm, state_norm, projection, norm;
    Block block;
  };

  MtpHead(std::shared_ptr<const std::vector<Layer>> layers, const Transformer& policy);
  at::Tensor Norm(const at::Tensor& x, const at::Tensor& weight) const;

  std::shared_ptr<const std::vector<Layer>> layers_;
  Transformer policy_;
};

// Returns whether a tensor in a model folder belongs to its prediction layers.
bool IsMtpTensor(const ModelConfig& config, std::string_view name);

// Returns random prediction layers, without copies of the policy's tensors. REQUIRES: the family has such layers.
MtpTensors InitMtpHead(const ModelConfig& config, int64_t layers, uint64_t seed, at::ScalarType dtype);

// Returns the tensors of the first layer as a version's draft head (kDraftPrefix), without copies of the policy's.
// Engines draft with that layer alone. Empty if there are none, or if the model has recurrent layers, which cannot take
// drafts back.
DraftTensors MtpDraft(const ModelConfig& config, const MtpTensors& tensors);
// Undoes MtpDraft for tensors of prediction layers. Empty if `draft` is a DraftHead's.
MtpTensors MtpOfDraft(const ModelConfig& config, const DraftTensors& draft);
// Returns the number of elements in one prediction layer; 0 = the family has none.
int64_t MtpLayerElements(const ModelConfig& config);

// Reads the prediction layers from a model folder; empty = it has none. Returns INVALID_ARGUMENT, naming the file, the
// key or tensor, and the family, if the folder has other layers than its config.json promises, or if a tensor is
// missing or unknown or has the wrong shape. Also returns the errors of LoadSafetensors.
absl::StatusOr<MtpTensors> ReadMtpHead(const std::string& dir, const ModelConfig& config);

// Same as ReadMtpHead, but if the folder has other layers than promised or unusable ones, logs why and returns none. Such a
// folder is often the result of training that dropped the layers. The model itself can still be used.
absl::StatusOr<MtpTensors> ReadMtpHeadOrWarn(const std::string& dir, const ModelConfig& config);

// For writing a model folder: call both functions, and save the tensors in the same file or files as the parameters.
// Replaces the copies of the policy's embedding and head by its current tensors, and removes those of parameters that
// another rank has (trainer.sharding). Other programs read these copies.
void UpdateMtpCopies(const ModelConfig& config, const Parameters& policy, MtpTensors* tensors);
// Adds the number of prediction layers in `tensors` to DIR/config.json.
absl::Status AddMtpToConfig(const std::string& dir, const ModelConfig& config, const MtpTensors& tensors);

}  // namespace ingot::model
