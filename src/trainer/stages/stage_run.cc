#include "trainer/stages/stage_run.h"

#include <utility>

#include "base/log.h"
#include "base/process_memory.h"
#include "base/work.h"
#include "kernels/torch/threads.h"
#include "trainer/objectives/step_loss.h"
#include "trainer/pass/tensor_memory.h"
#include "trainer/policy/policy_checkpoint.h"
#include "trainer/run_memory.h"
#include "trainer/step/batch_gradient.h"
#include "trainer/torch_edge.h"

namespace ingot::trainer {
namespace {

constexpr char kContext[] = "supervised training";

}  // namespace

StageRun::StageRun(StageKind kind, int threads, const Context& context)
    : context_(context),
      kind_(kind),
      threads_(threads),
      name_(kind == StageKind::kDpo ? "dpo" : "sft"),
      options_(kind == StageKind::kDpo ? context.options.dpo : context.options.sft),
      objective_(kind == StageKind::kDpo ? MakeDpo(context.options.dpo_beta) : MakeSft()),
      in_parts_(context.policy.publishes_in_parts()),
      skipped_(context.options.max_skipped_steps, /*sound=*/-1) {}

void StageRun::UseThreads() const {
  const int threads = threads_ > 0 ? threads_ : context_.options.threads;
  if (threads > 0) kernels::UseThreads(threads);
}

absl::StatusOr<uint64_t> StageRun::StartChecksum() {
  INGOT_ASSIGN_OR_RETURN(const auto snapshot, context_.policy.TakeSnapshot());
  return snapshot->policy_checksum();
}

absl::Status StageRun::Begin(const std::string& checkpoint) {
  INGOT_RETURN_IF_ERROR(context_.orders.BeginStage(kind_, checkpoint, threads_));
  INGOT_LOG(info, "stage {}: {}", name_, objective_->Describe());
  UseThreads();
  Policy& policy = context_.policy;
  policy.PublishInParts(false);
  const absl::Status begun = AtTorchEdge(kContext, [&]() -> absl::Status {
    policy.reference().Drop();
    if (kind_ == StageKind::kDpo) INGOT_RETURN_IF_ERROR(policy.reference().Copy(policy.parameters()));
    policy.UseOptimizer(options_.optimizer);
    return checkpoint.empty() ? absl::OkStatus() : Restore(checkpoint);
  });
  INGOT_RETURN_IF_ERROR(Agree(context_.ranks, begun));
  policy.Divide(/*snapshot=*/false);
  return absl::OkStatus();
}

absl::Status StageRun::Restore(const std::string& checkpoint) {
  INGOT_ASSIGN_OR_RETURN(CheckpointContents contents, ReadCheckpoint(checkpoint));
  context_.policy.LoadParameters(contents.parameters);
  contents.parameters = {};
  return base::Annotate(context_.policy.LoadOptimizer(checkpoint, contents), absl::StrCat("checkpoint ", checkpoint));
}

absl::StatusOr<PreparedBatch> StageRun::Prepare(const std::vector<tree::CallPath>& calls) const {
  const TokenLimits limits = context_.policy.Limits();
  return kind_ == StageKind::kDpo ? PreparePairs(calls, limits) : PrepareSft(calls, limits);
}

absl::StatusOr<std::string> StageRun::Update(const PreparedBatch& batch, const tree::PackedForest& forest, int64_t step,
                                             double learning_rate, StepTally& tally, double& grad_norm) {
  const auto& [options, ranks, policy, orders, exchanges, bound, clock] = context_;
  StepLoss loss(*objective_, {}, batch);
  std::string fault;
  const absl::Status status = AtTorchEdge(kContext, [&]() -> absl::Status {
    policy.optimizer().ZeroGrad();
    BatchGradient gradient(options, policy, exchanges, clock, batch, forest, loss);
    tally = gradient.Accumulate(PolicyReader(), /*variance=*/false);
    grad_norm = policy.optimizer().GradNorm();
    fault = gradient.FindFault(tally, grad_norm);
    if (!fault.empty()) return absl::OkStatus();
    const base::WorkPart updating("weight update");
    policy.BeginUpdate();
    policy.optimizer().Step(learning_rate, grad_norm);
    skipped_.NoteSound(step);
    return absl::OkStatus();
  });
  policy.optimizer().ZeroGrad();
  policy.ReleaseLayer();
  INGOT_RETURN_IF_ERROR(ShareError(ranks, status));
  return fault;
}

absl::StatusOr<StepMetrics> StageRun::Step(const std::vector<tree::CallPath>& calls, int64_t step,
                                           double learning_rate) {
  const auto& [options, ranks, policy, orders, exchanges, bound, clock] = context_;
  const base::WorkPart shown(absl::StrCat(name_, " step ", step));
  UseThreads();
  const auto start = clock.Now();
  const absl::StatusOr<PreparedBatch> batch = Prepare(calls);
  if (!batch.ok()) return ShareEarlyError(ranks, batch.status());
  INGOT_RETURN_IF_ERROR(orders.StageStep(calls, step, learning_rate));
  const absl::StatusOr<tree::PackedForest> forest = exchanges.PackShare(*batch);
  INGOT_RETURN_IF_ERROR(ShareError(ranks, forest.status()));
  StepMetrics metrics;
  INGOT_RETURN_IF_ERROR(
      ShareError(ranks, CheckStepFits(options, policy, ranks, *forest, absl::StrCat("a step of ", name_), metrics)));
  StepTally tally;
  double grad_norm = 0;
  INGOT_ASSIGN_OR_RETURN(const std::string fault, Update(*batch, *forest, step, learning_rate, tally, grad_norm));
  if (!fault.empty()) {
    skipped_.NoteNotFinite();
    INGOT_RETURN_IF_ERROR(skipped_.Count(absl::StrCat(name_, " step ", step),
                                         absl::StrCat(fault, "; a lower ", name_, ".learning_rate may help")));
  }
  OfferTensorMemory();
  const auto unmerged = static_cast<double>(batch->unmerged_tokens);
  const double seconds = Seconds(clock.Now() - start);
  metrics[name_ + "/skipped"] = fault.empty() ? 0 : 1;
  if (fault.empty()) {
    metrics[name_ + "/loss"] = tally.plain.loss;
    metrics[name_ + "/grad_norm"] = grad_norm;
    for (const auto& [name, value] : tally.sums.means) metrics[name] = value.mean();
  }
  metrics[name_ + "/learning_rate"] = learning_rate;
  metrics[name_ + "/tokens_per_second"] = seconds > 0 ? unmerged / seconds : 0;
  metrics["tree/token_ratio"] = unmerged / static_cast<double>(tally.plain.merged_tokens);
  exchanges.ReportBalance(tally, metrics);
  bound.Report(tally, metrics);
  return metrics;
}

absl::StatusOr<CheckpointInfo> StageRun::Save(const std::string& root, int64_t step,
                                              const std::map<std::string, std::string>& extra_files) {
  const base::WorkPart shown(absl::StrCat("writing checkpoint ", step, " of ", name_));
  INGOT_RETURN_IF_ERROR(context_.orders.Save(root, step));
  Policy& policy = context_.policy;
  INGOT_RETURN_IF_ERROR(AtTorchEdge("checkpoint", [&] {
    policy.GatherSnapshot(policy.version());  // a stage's steps leave no snapshot
    return absl::OkStatus();
  }));
  CheckpointContents contents;
  contents.step = step;
  contents.seed = context_.options.seed;
  contents.schedule = options_.optimizer;
  contents.last_sound_step = skipped_.last_sound_step();
  const absl::StatusOr<CheckpointInfo> info =
      SavePolicy(policy, context_.ranks, root, std::move(contents), extra_files, context_.options.keep_checkpoints);
  policy.DropSnapshot();
  return info;
}

absl::Status StageRun::End() {
  INGOT_RETURN_IF_ERROR(context_.orders.EndStage());
  Policy& policy = context_.policy;
  policy.PublishInParts(in_parts_);
  const absl::Status ended = AtTorchEdge(kContext, [&]() -> absl::Status {
    policy.reference().Drop();
    policy.Unite();
    policy.UseOptimizer(context_.options.optimizer);
    base::ReturnFreedMemory();
    ReleaseTensorMemory(policy.device());  // the stage's steps may have needed more
    return policy.reference().Start(policy.parameters());
  });
  return Agree(context_.ranks, ended);
}

}  // namespace ingot::trainer
