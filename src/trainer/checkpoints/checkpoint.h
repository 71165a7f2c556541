// Checkpoints of a training run. A checkpoint exists whole or not at all.
//
//   ROOT/step-00000012/         contains exactly the batches below 12, i.e. version 12
//     config.json, model.safetensors and the app's files (tokenizer.json, ...): a Hugging Face model folder
//     optimizer.safetensors     moments (and masters) of AdamW
//     reference.safetensors     the reference policy, once reference_update_every has moved it
//     state.json                step, seed, schedule, size and checksum of every other file, and a checksum of all
//                               that; written last
//
// Each of N ranks writes the parameters and the state that it owns: model-00001-of-0000N.safetensors and
// optimizer-00001-of-0000N.safetensors, ... Rank 0 then adds Hugging Face's model.safetensors.index.json.
//
// A checkpoint is written into a temporary folder in ROOT, fsynced, and renamed: a crash leaves the earlier ones as
// they were. The checksums find later damage before anything of the checkpoint is used, also by readers that load it as
// a model folder (base/written_files.h). One writer per ROOT (or the ranks of one trainer, on one file system); blocks
// on disk.
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
  uint64_t weights_checksum = 0;      // weights::Snapshot::checksum of its parameters
  int64_t next_group = 0;             // CheckpointContents::next_group
  std::vector<std::string> rejected;  // LatestCheckpoint: newer checkpoints that are damaged, each with its fault
};

struct CheckpointContents {
  int64_t step = 0;
  uint64_t seed = 0;
  uint64_t weights_checksum = 0;
  // FeedStats::next_group of the last batch: a run that loses its pool continues there. 0 = no batch yet.
  int64_t next_group = 0;
  int64_t total_steps = 0;  // for readers, like the schedule: a resumed run follows its configuration
  OptimizerOptions schedule;
  model::ModelConfig config;
  model::Parameters parameters;                 // written: only with one rank
  std::map<std::string, at::Tensor> optimizer;  // likewise; ReadCheckpoint leaves it empty
  std::map<std::string, at::Tensor> reference;  // written: empty = the checkpoint holds none; ReadReference reads it
  int64_t optimizer_steps = 0;
  int optimizer_shards = 1;  // read: number of files of the optimizer's state
  // Written: the last step whose weights are known to give a finite gradient. The newest checkpoint at or before it is
  // never removed as too old. -1 = every step is known to be sound.
  int64_t last_sound_step = -1;
  int64_t keep_every = 0;  // written: checkpoints whose step is a multiple of it are never removed; 0 = none
};

// The files that one of several ranks wrote into a checkpoint.
struct CheckpointShard {
  std::vector<std::string> parameters;  // names of the parameters in its file of weights
  int64_t parameter_bytes = 0;
  std::map<std::string, base::FileDigest> files;  // by name
};

// "step-00000012".
std::string CheckpointName(int64_t step);

// Writes ROOT/step-N, replacing a checkpoint of the same number. Then removes temporary folders of crashed writers, and
// the checkpoints up to N except the `keep` newest, those that keep_every keeps, and the checkpoint that
// last_sound_step protects. `extra_files`: names to contents; a name is plain, or FOLDER/NAME. After an error (a full
// disk, ...) the earlier checkpoints are untouched; the message names the path.
absl::StatusOr<CheckpointInfo> WriteCheckpoint(const std::string& root, const CheckpointContents& contents,
                                               const std::map<std::string, std::string>& extra_files, int64_t keep);

// WriteCheckpoint in three steps, for several ranks. Rank 0 begins and gets the temporary folder; each rank writes its
// own tensors into the folder as shard `shard` in [0, shards); rank 0 finishes with all shards, in order of the ranks.
// FinishCheckpoint ignores contents.parameters and contents.optimizer. After an error AbandonCheckpoint removes the
// folder.
absl::StatusOr<std::string> BeginCheckpoint(const std::string& root, int64_t step);
absl::StatusOr<CheckpointShard> WriteShard(const std::string& folder,
                                           const std::map<std::string, at::Tensor>& parameters,
                                           const std::map<std::string, at::Tensor>& optimizer, int shard, int shards);
absl::StatusOr<CheckpointInfo> FinishCheckpoint(const std::string& root, const CheckpointContents& contents,
                                                const std::vector<CheckpointShard>& shards,
                                                const std::map<std::string, std::string>& extra_files, int64_t keep);
void AbandonCheckpoint(const std::string& root, int64_t step);

// Checks every file against state.json. DATA_LOSS names a file that is missing or differs.
absl::StatusOr<CheckpointInfo> VerifyCheckpoint(const std::string& path);

// The newest intact checkpoint. NOT_FOUND: ROOT holds none; DATA_LOSS: all its checkpoints are damaged.
absl::StatusOr<CheckpointInfo> LatestCheckpoint(const std::string& root);

// Verifies and reads a checkpoint, without the optimizer's state.
absl::StatusOr<CheckpointContents> ReadCheckpoint(const std::string& path);
// Reads the reference policy of a checkpoint that ReadCheckpoint verified. NOT_FOUND: the checkpoint holds none.
absl::StatusOr<std::map<std::string, at::Tensor>> ReadReference(const std::string& path);
// Reads the optimizer's state, from any number of shards, into the tensors of `state`, by name (AdamW::State). `all`:
// `state` names every tensor of the checkpoint, or else a part of them. INVALID_ARGUMENT names the first tensor that is
// missing, has another shape, or (with `all`) is unknown; tensors read before it keep their new values.
absl::Status ReadOptimizer(const std::string& path, int shards, const std::map<std::string, at::Tensor>& state,
                           bool all);

}  // namespace ingot::trainer
