// Trains a draft head with the policy (options in the `draft` section). Owns the head, its optimizer, and the copy of
// the head that versions include. The policy's parameters, optimizer, and gradient norm do not depend on it.
//
//   step   Begin ─▶ DraftPass observes the policy's gradient pass ─▶ Learn ─▶ ... the policy's update ... ─▶ Apply
//
// If the head's loss or gradient is not finite, its step is skipped, and the policy's step continues. The copy changes
// only every publish_every versions, so most weight deltas do not contain the head. With options.shadow, versions also
// contain the first version's head, which never changes. One rank only. Used by one thread. Throws c10::Error.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "model/draft_head.h"
#include "trainer/adamw.h"
#include "trainer/draft/draft_options.h"
#include "trainer/draft/draft_pass.h"
#include "trainer/metrics.h"
#include "tree/forest.h"

namespace ingot::trainer {

class DraftTrainer {
 public:
  // Starts with `tensors`; empty = a random head. Same errors as DraftHead::Create. The policy's tensors must outlive
  // this object.
  static absl::StatusOr<std::unique_ptr<DraftTrainer>> Create(const DraftOptions& options,
                                                              const model::Transformer& policy,
                                                              const model::DraftTensors& tensors, uint64_t seed,
                                                              int64_t logits_chunk_elements, const base::Clock& clock);
  DraftTrainer(const DraftTrainer&) = delete;
  DraftTrainer& operator=(const DraftTrainer&) = delete;

  // Begins step `step` with the policy's current weights.
  DraftPass& Begin(const tree::PackedForest& forest, std::span<const tree::CallPath> calls, int64_t step);
  // Same as Begin, but for step `step` of the warm-up, whose loss is kl.
  DraftPass& BeginWarmup(const tree::PackedForest& forest, std::span<const tree::CallPath> calls, int64_t step);
  // Computes the head's gradient from the observed pass, and reports draft/loss and draft/overlap.
  void Learn(StepMetrics& metrics);
  // Updates the head, unless its loss or gradient is not finite.
  void Apply(StepMetrics& metrics);
  // Ends a step without an update.
  void Drop();

  // If due, copies the head for versions starting with `version`.
  bool PublishIfDue(int64_t version);
  // Copies the head for the first version, and for its shadow.
  void PublishFirst();
  // Returns the tensors that versions include, by name: the head, and its shadow if the options say so.
  model::DraftTensors published() const;

  // Returns the head in training.
  model::DraftTensors tensors() const;
  // Returns extra state for checkpoints: the optimizer's and, as published.NAME and shadow.NAME, the heads in versions.
  std::map<std::string, at::Tensor> State() const;
  // Restores both from a checkpoint. Returns INVALID_ARGUMENT, naming the tensor, if one is missing or does not match. A
  // checkpoint without a shadow has trained without one: the shadow is then the checkpoint's head in versions.
  absl::Status Restore(const model::DraftTensors& tensors, const std::map<std::string, at::Tensor>& state);

 private:
  DraftTrainer(const DraftOptions& options, const model::Transformer& policy, model::DraftTensors tensors,
               uint64_t seed, int64_t logits_chunk_elements, const base::Clock& clock);

  // Creates the head over the policy's current weights.
  absl::Status UseWeights();
  void Publish();
  absl::Status RestoreShadow(const std::map<std::string, at::Tensor>& state);
  DraftPass& BeginPass(const DraftOptions& options, const tree::PackedForest& forest,
                       std::span<const tree::CallPath> calls, uint64_t stream);

  const DraftOptions options_, warmup_options_;
  const model::Transformer policy_;
  const uint64_t seed_;
  const int64_t logits_chunk_elements_;
  const base::Clock& clock_;
  model::DraftTensors tensors_;
  AdamW optimizer_;
  model::DraftTensors published_;
  model::DraftTensors shadow_;  // under the head's names; empty = none

  // Set during a step.
  std::optional<model::DraftHead> head_;
  std::optional<DraftPass> pass_;
  DraftResult result_;
};

}  // namespace ingot::trainer
