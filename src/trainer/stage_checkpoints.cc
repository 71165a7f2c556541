#include "trainer/stage_checkpoints.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "base/checksum.h"
#include "base/json.h"
#include "base/log.h"
#include "trainer/checkpoint.h"
#include "trainer/files.h"
#include "trainer/weights_of.h"

namespace ingot::trainer {
namespace {

constexpr char kBeganWith[] = "stage.json";

std::string Digest(const std::vector<tree::CallPath>& calls) {
  base::StreamingChecksum sum;
  const auto add = [&sum](const std::vector<int32_t>& ids) {
    const int64_t count = std::ssize(ids);
    sum.Update(std::as_bytes(std::span(&count, 1)));
    sum.Update(std::as_bytes(std::span(ids)));
  };
  for (const tree::CallPath& call : calls) {
    sum.Update(std::as_bytes(std::span(&call.episode, 1)));
    add(call.context.Tokens());
    add(call.sampled);
  }
  return base::Hex(sum.Digest());
}

}  // namespace

absl::StatusOr<StageCheckpoints> StageCheckpoints::Open(const std::string& root, const TrainerOptions& options,
                                                        const model::Transformer& model, AdamW& optimizer,
                                                        const std::vector<tree::CallPath>& calls) {
  StageCheckpoints stage(root, options, model, optimizer);
  if (root.empty()) return stage;
  INGOT_ASSIGN_OR_RETURN(const auto start, SnapshotOf(0, model.parameters().tensors()));
  stage.began_with_ =
      base::PrintJson(base::json::object{{"data", Digest(calls)}, {"weights", base::Hex(start->checksum())}}) + "\n";
  return stage;
}

absl::StatusOr<int64_t> StageCheckpoints::Restore() const {
  if (root_.empty()) return 0;
  const absl::StatusOr<CheckpointInfo> latest = LatestCheckpoint(root_);
  if (absl::IsNotFound(latest.status())) return 0;
  INGOT_RETURN_IF_ERROR(latest.status());
  INGOT_ASSIGN_OR_RETURN(const std::string began_with, ReadSmallFile(latest->path + "/" + kBeganWith));
  if (began_with != began_with_) {
    return absl::FailedPreconditionError(
        absl::StrCat(latest->path,
                     " is of a stage that began with other data or other weights: give it the same data, model and "
                     "seed again, or remove ",
                     root_, " to start the stage anew"));
  }
  INGOT_ASSIGN_OR_RETURN(const CheckpointContents contents, ReadCheckpoint(latest->path));
  INGOT_ASSIGN_OR_RETURN(const auto state, ReadOptimizer(latest->path, contents.optimizer_shards));
  INGOT_RETURN_IF_ERROR(base::Annotate(optimizer_->LoadState(state, contents.optimizer_steps),
                                       absl::StrCat("checkpoint ", latest->path)));
  const at::NoGradGuard no_history;
  for (const auto& [name, tensor] : model_->parameters().tensors()) tensor.copy_(contents.parameters.at(name));
  return contents.step;
}

absl::Status StageCheckpoints::Save(int64_t steps) const {
  if (root_.empty()) return absl::OkStatus();
  INGOT_ASSIGN_OR_RETURN(const auto snapshot, SnapshotOf(0, model_->parameters().tensors()));
  CheckpointContents contents;
  contents.step = steps;
  contents.seed = options_->seed;
  contents.weights_checksum = snapshot->checksum();
  contents.config = model_->config();
  contents.parameters = ParametersOf(snapshot);
  contents.optimizer = optimizer_->State();
  for (auto& [name, tensor] : contents.optimizer) tensor = tensor.to(at::kCPU);
  contents.optimizer_steps = optimizer_->steps();
  return WriteCheckpoint(root_, contents, {{kBeganWith, began_with_}}, options_->keep_checkpoints).status();
}

absl::StatusOr<int64_t> StageSteps(const std::string& root) {
  const absl::StatusOr<CheckpointInfo> latest = LatestCheckpoint(root);
  if (absl::IsNotFound(latest.status())) return 0;
  INGOT_RETURN_IF_ERROR(latest.status());
  return latest->step;
}

}  // namespace ingot::trainer
