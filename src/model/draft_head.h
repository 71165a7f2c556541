// A draft head predicts further ids from the policy's hidden states, so that the engine can verify several ids in one
// pass (multi-token prediction, DeepSeek-V3, arXiv 2412.19437, section 2.2). It has one layer without attention:
//
//   x   = eh_proj [enorm(embedding of token j) | hnorm(hidden state of j's parent)]
//   out = shared_head.norm(x + mlp(post_attention_layernorm(x)))        q for the token after j = head(out)
//
// Rows are shifted: row j combines token j with the previous row's hidden state, after the policy's last norm. So its
// teacher is the policy's row j, and branches of a tree need no special rule, because each token has one parent. For a
// further id, `out` replaces the hidden state, and the predicted token replaces token j.
//
// The embedding and the output matrix are the policy's. A head may predict only some ids and never proposes others.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/config.h"
#include "model/transformer.h"

namespace ingot::model {

// The name prefix of a head's tensors in a version, which also contains the policy's tensors.
inline constexpr char kDraftPrefix[] = "draft.";
// The same for a head that engines compare with the version's own (trainer/draft/draft_options.h, shadow).
inline constexpr char kShadowPrefix[] = "draft.shadow.";
// The ids that the head predicts, ascending, stored as fp32; absent = all ids.
inline constexpr char kDraftIds[] = "draft.ids";

using DraftTensors = std::map<std::string, at::Tensor>;  // by name, with the prefix

// Renames a head's tensors to those of a shadow.
DraftTensors ShadowOf(const DraftTensors& head);
// Removes the shadow from a version's draft tensors, and returns it under a head's names; empty = there is none.
DraftTensors TakeShadow(DraftTensors* tensors);

class DraftHead {
 public:
  // Returns the names and shapes of the tensors in a head that predicts `ids` ids.
  static std::map<std::string, std::vector<int64_t>> Shapes(const ModelConfig& config, int64_t ids);
  // Returns the number of elements in a model's largest head.
  static int64_t MaxElements(const ModelConfig& config);
  // Returns a head with random tensors, which depend only on the arguments. It predicts the `vocabulary` smallest ids,
  // which are the most frequent ones in a BPE vocabulary, and the ids that end a turn. 0 = all ids.
  static DraftTensors Init(const ModelConfig& config, int64_t vocabulary, uint64_t seed, at::ScalarType dtype);

  // Shares `tensors` and the tensors of `policy`. Returns INVALID_ARGUMENT, naming the first tensor that is missing or
  // unknown, or has the wrong shape, type, device, or contents (ids).
  static absl::StatusOr<DraftHead> Create(const DraftTensors& tensors, const Transformer& policy);

  // hidden [rows, hidden_size], ids [rows] int64 -> [rows, hidden_size]. Each row's bits depend only on that row.
  at::Tensor Hidden(const at::Tensor& hidden, const at::Tensor& ids) const;
  // The result of Hidden -> logits [rows, predicted ids], fp32 (fp64 from an fp64 model).
  at::Tensor Logits(const at::Tensor& hidden) const;

  // The predicted ids, ascending; empty = all.
  const std::vector<int32_t>& ids() const { return ids_; }
  // [predicted ids] int64 on the model's device; undefined = all.
  const at::Tensor& id_tensor() const { return id_tensor_; }
  int64_t predicted() const { return matrix_.size(0); }
  // Returns the tensors that training changes, which are all except the ids.
  const DraftTensors& trained() const { return trained_; }

 private:
  DraftHead(DraftTensors trained, std::vector<int32_t> ids, const Transformer& policy);

  const at::Tensor& at(const char* name) const;

  DraftTensors trained_;
  std::vector<int32_t> ids_;
  at::Tensor id_tensor_;
  Transformer policy_;
  at::Tensor matrix_;  // the rows of the policy's head for the predicted ids
};

// Read and write DIR/draft/model.safetensors, where names have no prefix. Read returns no tensors if the file does not
// exist, and INVALID_ARGUMENT, naming the file, if it is not a head.
absl::StatusOr<DraftTensors> ReadDraftHead(const std::string& dir);
absl::Status WriteDraftHead(const std::string& dir, const DraftTensors& tensors);

}  // namespace ingot::model
