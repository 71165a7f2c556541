// Writes and reads checkpoints of a training run. Each checkpoint is written completely or not at all.
//
//   ROOT/step-00000012/         includes exactly batches 0 to 11, so it is version 12
//     config.json, model.safetensors, and the app's files (tokenizer.json, ...): a Hugging Face model folder
//     optimizer.safetensors     AdamW's moments and masters
//     reference.safetensors     the reference policy, once reference_update_every has moved it
//     draft/                    model.safetensors, the draft head (model/draft_head.h), and state.safetensors, its
//                               training state; only with draft.enabled
//     state.json                step, seed, schedule, the size and checksum of every other file, and a checksum of
//                               these; written last
//
// Each of N ranks writes the parameters and state that it owns to model-00001-of-0000N.safetensors and
// optimizer-00001-of-0000N.safetensors, and so on. Rank 0 then adds Hugging Face's model.safetensors.index.json.
//
// A checkpoint is written to a temporary directory in ROOT, fsynced, and renamed, so a crash leaves older checkpoints
// intact. The checksums reveal later damage before any part of the checkpoint is used. Readers that load it as a model
// folder also check them (base/written_files.h). Each ROOT has a single writer: one process, or one trainer's ranks on
// a shared file system. Blocks on disk I/O.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/written_files.h"
#include "model/parameters.h"
#include "trainer/options.h"

namespace ingot::trainer {

struct CheckpointInfo {
  std::string path;
  int64_t step = 0;
  uint64_t weights_checksum = 0;      // weights::Snapshot::policy_checksum
  int64_t next_group = 0;             // CheckpointContents::next_group
  std::vector<std::string> rejected;  // set by LatestCheckpoint: newer but damaged checkpoints, and why
};

struct CheckpointContents {
  int64_t step = 0;
  uint64_t seed = 0;
  uint64_t weights_checksum = 0;
  // FeedStats::next_group from the last batch. A run that loses its pool continues from there. 0 = no batch yet.
  int64_t next_group = 0;
  int64_t total_steps = 0;  // informational, like the schedule: a resumed run uses its own configuration
  OptimizerOptions schedule;
  model::ModelConfig config;
  model::Parameters parameters;                 // written only with one rank
  std::map<std::string, at::Tensor> optimizer;  // written only with one rank; ReadCheckpoint leaves it empty
  std::map<std::string, at::Tensor> reference;  // set when writing; empty = none; use ReadReference to read it
  // Set when writing; empty = none; use ReadDraft to read them.
  std::map<std::string, at::Tensor> draft, draft_state;
  std::map<std::string, at::Tensor> mtp;  // set when writing: the model's prediction layers (model/mtp_head.h)
  int64_t optimizer_steps = 0;
  int optimizer_shards = 1;  // set when read: number of optimizer state files
  // Set when writing. The last step whose weights are known to give a finite gradient. The newest checkpoint at or
  // before this step is never deleted because of age. -1 = all steps are known to be sound.
  int64_t last_sound_step = -1;
  int64_t keep_every = 0;  // set when writing; checkpoints at multiples of this step are never deleted; 0 = none
};

// The files that one of several ranks wrote to a checkpoint.
struct CheckpointShard {
  std::vector<std::string> parameters;  // names of the parameters in its weights file
  int64_t parameter_bytes = 0;
  std::map<std::string, base::FileDigest> files;  // by name
};

// Returns, for example, "step-00000012".
std::string CheckpointName(int64_t step);

// Writes ROOT/step-N, replacing any checkpoint for the same step. Then deletes temporary directories left by crashed
// writers, and all checkpoints up to N except the newest `keep`, the ones protected by keep_every, and the one
// protected by last_sound_step. `extra_files` maps names to contents. A name is a plain name or FOLDER/NAME. If an
// error occurs, such as a full disk, older checkpoints remain intact, and the error names the path.
absl::StatusOr<CheckpointInfo> WriteCheckpoint(const std::string& root, const CheckpointContents& contents,
                                               const std::map<std::string, std::string>& extra_files, int64_t keep);

// Same as WriteCheckpoint, but in three steps, for several ranks. Rank 0 begins and gets the temporary directory. Each
// rank writes its own tensors there as shard `shard` in [0, shards). Rank 0 finishes with all shards, in rank order.
// FinishCheckpoint ignores contents.parameters and contents.optimizer. AbandonCheckpoint deletes the directory after an
// error.
absl::StatusOr<std::string> BeginCheckpoint(const std::string& root, int64_t step);
absl::StatusOr<CheckpointShard> WriteShard(const std::string& folder,
                                           const std::map<std::string, at::Tensor>& parameters,
                                           const std::map<std::string, at::Tensor>& optimizer, int shard, int shards);
absl::StatusOr<CheckpointInfo> FinishCheckpoint(const std::string& root, const CheckpointContents& contents,
                                                const std::vector<CheckpointShard>& shards,
                                                const std::map<std::string, std::string>& extra_files, int64_t keep);
void AbandonCheckpoint(const std::string& root, int64_t step);

// Checks every file against state.json. Returns DATA_LOSS, naming the file, if one is missing or differs.
absl::StatusOr<CheckpointInfo> VerifyCheckpoint(const std::string& path);

// Returns the newest intact checkpoint, NOT_FOUND if ROOT has no checkpoints, or DATA_LOSS if all are damaged.
absl::StatusOr<CheckpointInfo> LatestCheckpoint(const std::string& root);

// Verifies and reads a checkpoint, without the optimizer's state.
absl::StatusOr<CheckpointContents> ReadCheckpoint(const std::string& path);
// Reads the reference policy from a checkpoint that ReadCheckpoint has verified. Returns NOT_FOUND if there is none.
absl::StatusOr<std::map<std::string, at::Tensor>> ReadReference(const std::string& path);
// Reads the training state of a draft head (CheckpointContents::draft_state) from a checkpoint that ReadCheckpoint has
// verified. Returns NOT_FOUND if there is none. model::ReadDraftHead reads the head.
absl::StatusOr<std::map<std::string, at::Tensor>> ReadDraftState(const std::string& path);
// Reads the optimizer's state, from any number of shards, into the tensors of `state` by name (AdamW::State). If `all`,
// `state` must name every tensor in the checkpoint; otherwise, it may name a subset. Returns INVALID_ARGUMENT, naming
// the first tensor that is missing, has the wrong shape, or (with `all`) is unknown. Tensors read before the error keep
// their new values.
absl::Status ReadOptimizer(const std::string& path, int shards, const std::map<std::string, at::Tensor>& state,
                           bool all);

}  // namespace ingot::trainer
