// The reference policy: the frozen model that a KL term or DPO compares the policy with.
//
//   start       the run's start policy, or the model folder options.reference_path
//   DPO stage   the policy at the start of the stage
//   RL stage    the start again (without a reference_path: the result of the supervised stages), or every
//               reference_update_every steps the newest policy
//
// At most one is held at a time. Every rank holds all of it. Used by one thread; throws c10::Error.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/status.h"
#include "model/config.h"
#include "model/parameters.h"
#include "model/transformer.h"
#include "trainer/options.h"

namespace ingot::trainer {

class ReferencePolicy {
 public:
  // `options` and `config`, the policy's, outlive this. Holds none yet.
  ReferencePolicy(const TrainerOptions& options, const model::ModelConfig& config)
      : options_(options), config_(config) {}

  // Null = none is held.
  const model::Transformer* model() const { return model_ ? &*model_ : nullptr; }

  // Holds the run's reference policy, if options need one. `start`: the run's start policy. INVALID_ARGUMENT: the model
  // of reference_path does not fit the policy; errors of LoadModelDir.
  absl::Status Start(const model::Parameters& start);
  // The same at a checkpoint of version `step`. FAILED_PRECONDITION: the checkpoint and reference_update_every do not
  // agree on whether the reference policy has moved, or the start policy is needed and no reference_path names it.
  absl::Status Restore(const std::string& checkpoint_path, int64_t step, at::Device device);
  // Holds a copy of `policy` instead.
  absl::Status Copy(const model::Parameters& policy);
  // The same if reference_update_every says that version `version` becomes the reference. RESOURCE_EXHAUSTED and
  // INTERNAL: the torch edge's errors.
  absl::Status MoveIfDue(const model::Parameters& policy, int64_t version);
  void Drop() { model_.reset(); }

  // What a checkpoint of version `version` holds of it: its tensors once it has moved, before that none.
  std::map<std::string, at::Tensor> Saved(int64_t version) const;

 private:
  // Loads reference_path.
  absl::Status Load(at::Device device);

  const TrainerOptions& options_;
  const model::ModelConfig& config_;
  std::optional<model::Transformer> model_;
};

}  // namespace ingot::trainer
