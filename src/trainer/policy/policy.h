// The policy that a trainer trains: the model's parameters, their optimizer, the reference policy, and the snapshot of
// the current parameters. One per rank; with sharding "layers" the ranks divide the parameters (layer_shards.h).
//
//   version v ── BeginUpdate ─▶ the optimizer's step ── Advance ─▶ version v + 1
//       │                                                  └ AdvanceUnchanged: a skipped step, the same weights
//       └ TakeSnapshot: the whole version, of one rank or rank 0     GatherSnapshot: the same of divided parameters
//         TakeOwn: this rank's part of it, if ranks store versions in parts (version_parts.h)
//
// A snapshot, once taken, is the same object until BeginUpdate, Advance or DropSnapshot. It shares memory with the
// parameters where it can (adamw.h), and has the words by which it differs from the snapshot before it.
//
// Functions marked "together" are called by all ranks at the same place of their sequence. Used by one thread; throws
// c10::Error and StatusError.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "model/transformer.h"
#include "trainer/adamw.h"
#include "trainer/batch.h"
#include "trainer/checkpoints/checkpoint.h"
#include "trainer/options.h"
#include "trainer/parallel/layer_shards.h"
#include "trainer/parallel/ranks.h"
#include "trainer/parallel/sharded_adamw.h"
#include "trainer/pass/forest_pass.h"
#include "trainer/policy/reference_policy.h"
#include "weights/snapshot.h"

namespace ingot::trainer {

class Policy {
 public:
  // At version 0, with a fresh optimizer of options.optimizer and no reference policy. `options` and `ranks` (null =
  // one rank) outlive this.
  Policy(const TrainerOptions& options, model::Transformer model, Ranks* ranks);
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;

  const model::Transformer& model() const { return model_; }
  const model::ModelConfig& config() const { return model_.config(); }
  const model::Parameters& parameters() const { return model_.parameters(); }
  at::Device device() const { return any().device(); }
  // A parameter, for the type and the device of all.
  const at::Tensor& any() const { return parameters().tensors().begin()->second; }
  TokenLimits Limits() const;
  // The options of every pass over the model.
  const PassOptions& pass() const { return pass_; }
  ReferencePolicy& reference() { return reference_; }
  const ReferencePolicy& reference() const { return reference_; }

  // Optimizer steps since the supervised stages, skipped ones included.
  int64_t version() const { return version_; }
  void SetVersion(int64_t version) { version_ = version; }  // of a checkpoint
  // After an update.
  void Advance() { ++version_; }
  // After a step that changed no parameter.
  absl::Status AdvanceUnchanged();

  ShardedAdamW& optimizer() { return *optimizer_; }
  const ShardedAdamW& optimizer() const { return *optimizer_; }
  // Replaces the optimizer by a fresh one. Snapshots do not know their changes across it.
  void UseOptimizer(const OptimizerOptions& options);
  // Reads the optimizer's state of a checkpoint. Errors as ReadOptimizer.
  absl::Status LoadOptimizer(const std::string& checkpoint_path, const CheckpointContents& contents);
  // Replaces the parameters' values.
  void LoadParameters(const model::Parameters& parameters);
  // REQUIRED before the optimizer changes parameters: drops the snapshot, and what other ranks own.
  void BeginUpdate();

  // Together. With sharding "layers", this rank keeps only what it owns; other layers come when a pass needs them.
  // `snapshot`: rank 0 takes the version's snapshot before, if it publishes whole versions.
  void Divide(bool snapshot);
  bool divided() const { return shards_ != nullptr && shards_->divided(); }
  // Together. Undoes Divide.
  void Unite();
  // Drops the layer of other ranks that was needed last.
  void ReleaseLayer();
  // Seconds spent in total waiting for other ranks' parameters.
  double gather_seconds() const { return shards_ == nullptr ? 0 : shards_->seconds(); }
  // What this rank stores: the parameters that it owns; on rank 0 also those without an owner. REQUIRES: several ranks.
  std::map<std::string, at::Tensor> OwnParameters() const;

  // Together. Whether each rank stores its part of every version (TakeOwn); false, as at first: rank 0 has versions
  // whole.
  void PublishInParts(bool in_parts);
  bool publishes_in_parts() const { return in_parts_; }
  // The current parameters. INTERNAL: they are divided, and this is not rank 0.
  absl::StatusOr<std::shared_ptr<const weights::Snapshot>> TakeSnapshot();
  // This rank's own parameters; a new object at every call.
  absl::StatusOr<std::shared_ptr<const weights::Snapshot>> TakeOwn();
  // Together, after an update. If parameters are divided and versions whole, rank 0 takes the snapshot of `version`.
  // Destroys the gradients.
  void GatherSnapshot(int64_t version);
  void DropSnapshot() { snapshot_ = nullptr; }

 private:
  // A snapshot of `parameters`. `marked_from`: the checksum of the last snapshot of the same parameters, from which the
  // optimizer's marks count; becomes the new one's.
  absl::StatusOr<std::shared_ptr<const weights::Snapshot>> Take(const std::map<std::string, at::Tensor>& parameters,
                                                                uint64_t& marked_from);
  // How snapshots are copied.
  weights::CopyOptions CopiesInto(std::shared_ptr<const weights::Changes> changes);
  // The optimizer's parameters, and those that are not trained as earlier snapshots have them.
  std::map<std::string, RoundedParameter> TakeRounded();
  // The parameters that are not trained move into the memory of a new snapshot, which later ones share.
  void ShareFrozen(const weights::Snapshot& snapshot);

  const TrainerOptions& options_;
  Ranks* const ranks_;  // null = one rank
  const model::Transformer model_;
  const std::unique_ptr<LayerShards> shards_;  // null = every rank holds all parameters
  const PassOptions pass_;
  ReferencePolicy reference_;
  std::optional<ShardedAdamW> optimizer_;  // empty only while it is replaced
  int64_t version_ = 0;
  bool in_parts_ = false;
  // Of the current parameters; null = not taken yet (or, if divided, only on rank 0).
  std::shared_ptr<const weights::Snapshot> snapshot_;
  weights::BufferPool buffers_;                     // of snapshots
  std::map<std::string, RoundedParameter> frozen_;  // parameters that no step changes, in memory that versions share
  // Checksum of the whole version, or of this rank's part, from which the optimizer's marks count; 0 = the weights
  // changed in other ways since. At most one of them is not 0.
  uint64_t marked_from_ = 0, part_marked_from_ = 0;
};

}  // namespace ingot::trainer
