// Checkpoints of a training run, whole or not there.
//
//   ROOT/step-00000012/         contains exactly the batches below 12, i.e. version 12
//     config.json, model.safetensors and the app's files (tokenizer.json, ...): a Hugging Face model folder
//     optimizer.safetensors     moments (and masters) of AdamW
//
// Of a trainer of N ranks each writes what it owns of both: model-00001-of-0000N.safetensors (and one of them
// model.safetensors.index.json, as Hugging Face has it), optimizer-00001-of-0000N.safetensors, ...
//
//     state.json                step, seed, schedule, and size and checksum of every other file; written last
//
// Written into a temporary folder beside it, fsynced, and renamed: a crash leaves the old set. Whatever damages a
// checkpoint later is found by the checksums before anything of it is used. One writer per ROOT (or the ranks of one
// trainer, on one file system); blocks on disk.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/parameters.h"
#include "trainer/files.h"
#include "trainer/options.h"

namespace ingot::trainer {

struct CheckpointInfo {
  std::string path;
  int64_t step = 0;
  uint64_t weights_checksum = 0;      // weights::Snapshot::checksum of its parameters
  std::vector<std::string> rejected;  // LatestCheckpoint: newer ones that are damaged, and why
};

struct CheckpointContents {
  int64_t step = 0;
  uint64_t seed = 0;
  uint64_t weights_checksum = 0;
  int64_t total_steps = 0;  // recorded for readers, like the schedule: a resumed run goes by its configuration
  OptimizerOptions schedule;
  model::ModelConfig config;
  model::Parameters parameters;                 // where one rank writes alone, or what was read
  std::map<std::string, at::Tensor> optimizer;  // likewise
  int64_t optimizer_steps = 0;
  int optimizer_shards = 1;  // read: files that the optimizer's state was written as
  // Written: weights of this step or before it gave a finite gradient, and it is not known that later ones do: the
  // newest checkpoint of them stays, however many come after it. -1: nothing is feared.
  int64_t last_sound_step = -1;
};

// What one of several ranks wrote of a checkpoint.
struct CheckpointShard {
  std::vector<std::string> parameters;  // names of those in its file of weights
  int64_t parameter_bytes = 0;
  std::map<std::string, FileDigest> files;  // by name
};

// "step-00000012".
std::string CheckpointName(int64_t step);

// Writes ROOT/step-N (replacing one of the same number), then removes all but the `keep` newest of those up to N (and
// the one of last_sound_step) and temporary folders of crashed writers. `extra_files`: plain file names to contents. On
// an error (a full disk, ...) the earlier checkpoints are untouched; the message names the path.
absl::StatusOr<CheckpointInfo> WriteCheckpoint(const std::string& root, const CheckpointContents& contents,
                                               const std::map<std::string, std::string>& extra_files, int64_t keep);

// The same in three steps, for several ranks: one begins (and is given the temporary folder), each writes what it owns
// into that as shard `shard` in [0, shards), and then one finishes with what all have written, in their order;
// contents.parameters and contents.optimizer are not looked at. After an error AbandonCheckpoint removes the folder.
absl::StatusOr<std::string> BeginCheckpoint(const std::string& root, int64_t step);
absl::StatusOr<CheckpointShard> WriteShard(const std::string& folder,
                                           const std::map<std::string, at::Tensor>& parameters,
                                           const std::map<std::string, at::Tensor>& optimizer, int shard, int shards);
absl::StatusOr<CheckpointInfo> FinishCheckpoint(const std::string& root, const CheckpointContents& contents,
                                                const std::vector<CheckpointShard>& shards,
                                                const std::map<std::string, std::string>& extra_files, int64_t keep);
void AbandonCheckpoint(const std::string& root, int64_t step);

// Checks every file against state.json. DATA_LOSS names what is missing or differs.
absl::StatusOr<CheckpointInfo> VerifyCheckpoint(const std::string& path);

// The newest intact one. NOT_FOUND: there is none at all; DATA_LOSS: there are some, all damaged.
absl::StatusOr<CheckpointInfo> LatestCheckpoint(const std::string& root);

// Verifies and reads, without the optimizer's state.
absl::StatusOr<CheckpointContents> ReadCheckpoint(const std::string& path);
// The optimizer's state of a checkpoint that was read, however many ranks wrote it: into the tensors of `state`, by
// name (AdamW::State), which are `all` or some of it. INVALID_ARGUMENT names the first tensor that is missing, of
// another shape, or (of all) unknown; what was read until then stays.
absl::Status ReadOptimizer(const std::string& path, int shards, const std::map<std::string, at::Tensor>& state,
                           bool all);

}  // namespace ingot::trainer
