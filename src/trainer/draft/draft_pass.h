// Computes the gradient of a draft head on one batch, alongside the policy's gradient pass. It only reads from that
// pass: the hidden states, the embedding, and the teachers are copies or have no autograd history.
//
//   policy's pass   hidden states of the chosen rows' ancestors ─┐
//                   log-probs of the chosen rows (teachers) ─────┴▶ Run: gradient of the head's tensors
//
//   loss = sum over depths d of 0.8^(d-1) * mean over tokens of D(teacher, q at depth d)
//
// q is the head's softmax over its ids at the teacher's temperature, and the teacher is the policy's. D is one of:
//
//   kl        KL(teacher || q) over all ids
//   topk_kl   KL(teacher || q) over the teacher's top_k most likely ids and the sum of the rest
//   topk_tv   total variation over the same ids
//
// Used by one thread. Throws c10::Error.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "model/draft_head.h"
#include "trainer/draft/draft_options.h"
#include "trainer/draft/draft_rows.h"
#include "trainer/pass/forest_pass.h"
#include "tree/forest.h"

namespace ingot::trainer {

struct DraftResult {
  double loss = 0;
  double overlap = 0;  // mean of sum over ids of min(teacher, q) at depth 1: the acceptance of rejection sampling
  double tokens = 0;   // number of chosen loss tokens
};

class DraftPass {
 public:
  // `seed` chooses the tokens. The arguments must outlive this object.
  DraftPass(const DraftOptions& options, const model::DraftHead& head, const model::Transformer& policy,
            const tree::PackedForest& forest, std::span<const tree::CallPath> calls, int64_t logits_chunk_elements,
            uint64_t seed);

  // Adds readers to a pass over the forest, after its existing readers.
  void Observe(PassOptions& pass);

  // Adds the loss's gradient to the .grad of the head's tensors. REQUIRES: Observe was called on a pass that has run.
  DraftResult Run();

 private:
  struct Loss {
    at::Tensor sum;      // scalar with history
    double overlap = 0;  // weighted sum
  };

  void ReadPolicy(const kernels::Policy& policy, std::span<const tree::LossEntry> entries,
                  std::span<const int64_t> row);
  void ReadHidden(int32_t begin, int32_t end, const at::Tensor& x);
  // Writes teachers [index.size(), ids].
  void Keep(const std::vector<int64_t>& index, const at::Tensor& logprobs);
  Loss LossOf(const at::Tensor& logits, const at::Tensor& teachers) const;
  // Adds one depth's gradient with respect to the head's outputs.
  void RunDepth(size_t depth, const at::Tensor& outputs, const at::Tensor& gradient, DraftResult& result) const;
  bool whole() const { return options_.loss == "kl"; }

  const DraftOptions& options_;
  const model::DraftHead& head_;
  const model::Transformer& policy_;
  const tree::PackedForest& forest_;
  const std::span<const tree::CallPath> calls_;
  const int64_t logits_chunk_elements_;
  const int64_t kept_;  // number of ids kept per teacher
  const DraftRows rows_;
  at::Tensor hidden_;    // [rows_.hidden.size(), hidden_size]
  at::Tensor logprobs_;  // [teachers, kept], in the accumulation type
  at::Tensor ids_;       // [teachers, kept] int64, as indices of predicted ids; undefined = all ids in order
  at::Tensor weights_, temperatures_;  // [teachers]; weights add up to 1
};

}  // namespace ingot::trainer
