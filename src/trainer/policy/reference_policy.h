// Owns the reference policy: the frozen model that a KL term or DPO compares the policy with.
//
//   start       the run's start policy, or the model folder options.reference_path
//   DPO stage   the policy at the start of the stage
//   RL stage    the start policy (without a reference_path, the result of the supervised stages), replaced by the
//               newest policy every reference_update_every steps
//
// There is at most one reference policy at a time, and every rank holds all of it. Used by one thread. Throws
// c10::Error.
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
  // Starts without a reference policy. `options` and `config`, which is the policy's, must outlive this object.
  ReferencePolicy(const TrainerOptions& options, const model::ModelConfig& config)
      : options_(options), config_(config) {}

  // Returns null if there is none.
  const model::Transformer* model() const { return model_ ? &*model_ : nullptr; }

  // Loads the run's reference policy if the options need one. `start` is the run's start policy. Returns
  // INVALID_ARGUMENT if the model in reference_path does not match the policy, and the errors of LoadModelDir.
  absl::Status Start(const model::Parameters& start);
  // Same as Start, but for resuming from a checkpoint of version `step`. Returns FAILED_PRECONDITION if the checkpoint
  // and reference_update_every disagree on whether the reference policy has moved, or if the start policy is needed and
  // there is no reference_path.
  absl::Status Restore(const std::string& checkpoint_path, int64_t step, at::Device device);
  // Replaces the reference policy with a copy of `policy`.
  absl::Status Copy(const model::Parameters& policy);
  // Same as Copy, but only if reference_update_every makes version `version` the reference. Returns AtTorchEdge's
  // errors.
  absl::Status MoveIfDue(const model::Parameters& policy, int64_t version);
  void Drop() { model_.reset(); }

  // Returns the tensors that a checkpoint of version `version` stores: none until the reference policy has moved.
  std::map<std::string, at::Tensor> Saved(int64_t version) const;

 private:
  // Loads reference_path.
  absl::Status Load(at::Device device);

  const TrainerOptions& options_;
  const model::ModelConfig& config_;
  std::optional<model::Transformer> model_;
};

}  // namespace ingot::trainer
