// Owns the policy in training: the model's parameters, their optimizer, the reference policy, and a snapshot of the
// current parameters. There is one per rank. With sharding "layers", the ranks divide the parameters (layer_shards.h).
//
//   version v ── BeginUpdate ─▶ the optimizer's step ── Advance ─▶ version v + 1
//       │                                                  └ AdvanceUnchanged: a skipped step with the same weights
//       └ TakeSnapshot: the whole version, with one rank or on rank 0   GatherSnapshot: the same for divided parameters
//         TakeOwn: this rank's part of it, if ranks store versions in parts (version_parts.h)
//
// TakeSnapshot returns the same object until BeginUpdate, Advance, or DropSnapshot. A snapshot shares memory with the
// parameters if it can (adamw.h), and records the words that differ from the previous snapshot.
//
// All ranks call functions marked "collective" at the same point in their sequence. Used by one thread. Throws
// c10::Error and StatusError.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "model/draft_head.h"
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
  // Starts at version 0, with a fresh optimizer from options.optimizer and no reference policy. `options` and `ranks`
  // (null = one rank) must outlive this object.
  Policy(const TrainerOptions& options, model::Transformer model, Ranks* ranks);
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;

  const model::Transformer& model() const { return model_; }
  const model::ModelConfig& config() const { return model_.config(); }
  const model::Parameters& parameters() const { return model_.parameters(); }
  at::Device device() const { return any().device(); }
  // Returns one parameter, to get the type and device of all of them.
  const at::Tensor& any() const { return parameters().tensors().begin()->second; }
  TokenLimits Limits() const;
  // Returns the options for every pass over the model.
  const PassOptions& pass() const { return pass_; }
  ReferencePolicy& reference() { return reference_; }
  const ReferencePolicy& reference() const { return reference_; }

  // Returns the number of optimizer steps since the supervised stages, including skipped ones.
  int64_t version() const { return version_; }
  void SetVersion(int64_t version) { version_ = version; }  // used when loading a checkpoint
  // Called after an update.
  void Advance() { ++version_; }
  // Called after a step that changed no parameter.
  absl::Status AdvanceUnchanged();

  ShardedAdamW& optimizer() { return *optimizer_; }
  const ShardedAdamW& optimizer() const { return *optimizer_; }
  // Replaces the optimizer with a fresh one. The next snapshot does not record the optimizer's changes.
  void UseOptimizer(const OptimizerOptions& options);
  // Reads the optimizer's state from a checkpoint. Same errors as ReadOptimizer.
  absl::Status LoadOptimizer(const std::string& checkpoint_path, const CheckpointContents& contents);
  void LoadParameters(const model::Parameters& parameters);
  // Drops the snapshot and the parameters that other ranks own. Call before the optimizer changes parameters.
  void BeginUpdate();

  // Collective. With sharding "layers", drops the parameters that this rank does not own. Passes load other layers when
  // they need them. If `snapshot` and rank 0 publishes whole versions, it takes the version's snapshot first.
  void Divide(bool snapshot);
  bool divided() const { return shards_ != nullptr && shards_->divided(); }
  // Collective. Undoes Divide.
  void Unite();
  // Drops the most recently needed layer if other ranks own it.
  void ReleaseLayer();
  // Returns the total seconds spent waiting for other ranks' parameters.
  double gather_seconds() const { return shards_ == nullptr ? 0 : shards_->seconds(); }
  // Returns the parameters that this rank stores: its own and, on rank 0, unowned ones. REQUIRES: several ranks.
  std::map<std::string, at::Tensor> OwnParameters() const;

  // Collective. Sets whether each rank stores its part of every version (TakeOwn). False (default) = rank 0 has whole
  // versions.
  void PublishInParts(bool in_parts);
  bool publishes_in_parts() const { return in_parts_; }
  // Returns a snapshot of the current parameters. Returns INTERNAL if they are divided and this is not rank 0.
  absl::StatusOr<std::shared_ptr<const weights::Snapshot>> TakeSnapshot();
  // Returns this rank's own parameters, as a new object on every call.
  absl::StatusOr<std::shared_ptr<const weights::Snapshot>> TakeOwn();
  // Collective, after an update. If parameters are divided and versions are whole, rank 0 takes the snapshot of
  // `version`. Destroys the gradients.
  void GatherSnapshot(int64_t version);
  void DropSnapshot() { snapshot_ = nullptr; }
  // Sets the draft head to include in snapshots; empty (default) = none. REQUIRES: one rank.
  void Carry(model::DraftTensors draft);

 private:
  // Takes a snapshot of `parameters`. `marked_from` is the checksum of the last snapshot of the same parameters. The
  // optimizer's marks are relative to it. It is set to the new snapshot's checksum. Parameters on a device send only
  // their changes if the last snapshot still exists.
  absl::StatusOr<std::shared_ptr<const weights::Snapshot>> Take(const std::map<std::string, at::Tensor>& parameters,
                                                                uint64_t& marked_from);
  // Returns how to copy snapshots.
  weights::CopyOptions CopiesInto(std::shared_ptr<const weights::Changes> changes);
  // Returns the optimizer's parameters, plus the untrained parameters as in earlier snapshots. If `gathers` is false,
  // drops the changes on devices.
  std::map<std::string, RoundedParameter> TakeRounded(bool gathers);
  // Returns the snapshot to which the marks are relative, or null.
  std::shared_ptr<const weights::Snapshot> BaseOf(uint64_t marked_from) const;
  // Collective. Rank 0 takes the snapshot of the whole parameters, from all ranks' changes if it has the base.
  absl::Status GatherFrom(const std::shared_ptr<const weights::Snapshot>& base, int64_t version);
  absl::Status GatherWhole(int64_t version);
  // Moves the untrained parameters into a new snapshot's memory, which later snapshots share. Those on a device stay
  // there, and later snapshots share the snapshot's copy.
  void ShareFrozen(const weights::Snapshot& snapshot);

  const TrainerOptions& options_;
  Ranks* const ranks_;  // null = one rank
  const model::Transformer model_;
  const std::unique_ptr<LayerShards> shards_;  // null = every rank holds all parameters
  const PassOptions pass_;
  ReferencePolicy reference_;
  std::optional<ShardedAdamW> optimizer_;  // empty only during a replacement
  int64_t version_ = 0;
  bool in_parts_ = false;
  // Snapshot of the current parameters. Null = not taken yet. If the parameters are divided, only rank 0 has one.
  std::shared_ptr<const weights::Snapshot> snapshot_;
  model::DraftTensors carried_;
  weights::BufferPool buffers_;  // for snapshots
  // Parameters that no step changes, in memory that versions share. On a device, they have no memory here and no changes.
  std::map<std::string, RoundedParameter> frozen_;
  // Checksums of the whole version and of this rank's part, to which the optimizer's marks are relative. 0 = the
  // weights have also changed in other ways. At most one of the two is not 0.
  uint64_t marked_from_ = 0, part_marked_from_ = 0;
  std::weak_ptr<const weights::Snapshot> base_;  // the snapshot with this checksum, while others use it
};

}  // namespace ingot::trainer
