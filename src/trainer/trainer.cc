#include "trainer/trainer.h"

#include <ATen/ATen.h>

#include <utility>

#include "base/log.h"
#include "base/process_memory.h"
#include "base/work.h"
#include "kernels/torch/threads.h"
#include "trainer/custom_loss/custom_objective.h"
#include "trainer/draft/draft_warmup.h"
#include "trainer/pass/gradient_faults.h"
#include "trainer/pass/tensor_memory.h"
#include "trainer/policy/owned_model.h"
#include "trainer/policy/policy_checkpoint.h"
#include "trainer/run_memory.h"
#include "trainer/stages/stage_loop.h"
#include "trainer/torch_edge.h"

namespace ingot::trainer {
namespace {

absl::Status TakeFromRankZero(const model::Parameters& parameters, Ranks* ranks) {
  if (ranks == nullptr) return absl::OkStatus();
  for (const auto& [name, tensor] : parameters.tensors()) INGOT_RETURN_IF_ERROR(ranks->Broadcast(tensor, 0));
  return absl::OkStatus();
}

// Describes a mask's bounds. An upper bound of 0 means none.
std::string MaskBounds(double low, double high) {
  return high > 0 ? absl::StrCat("outside [", low, ", ", high, "]") : absl::StrCat("below ", low);
}

std::string DescribeRest(const TrainerOptions& o) {
  std::string text =
      absl::StrCat("loss aggregated per ", o.loss_aggregation, ", advantages: credit ", o.advantage_credit,
                   ", baseline ", o.advantage_baseline, ", normalization ", o.advantage_normalization);
  if (o.reference_kl_coefficient > 0)
    absl::StrAppend(&text, ", KL to the reference (", o.kl_kind, ") times ", o.reference_kl_coefficient);
  const OffPolicyMaskOptions& masks = o.off_policy_mask;
  if (masks.of_tokens()) {
    absl::StrAppend(&text, ", tokens masked ", MaskBounds(masks.token_low, masks.token_high));
  }
  if (masks.sequence_low > 0 || masks.sequence_high > 0) {
    absl::StrAppend(&text, ", sequences masked ", MaskBounds(masks.sequence_low, masks.sequence_high));
  }
  if (masks.opsm_delta > 0) absl::StrAppend(&text, ", off-policy sequences masked above ", masks.opsm_delta, " nats");
  return text;
}

int64_t BytesOf(const model::Parameters& parameters) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : parameters.tensors()) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

}  // namespace

Trainer::Trainer(const TrainerOptions& options, model::Transformer model, std::unique_ptr<Objective> objective,
                 const base::Clock& clock, Ranks* ranks)
    : options_(options),
      clock_(clock),
      objective_(std::move(objective)),
      ranks_(ranks),
      policy_(options_, std::move(model), ranks),
      exchanges_(ranks, policy_.config()),
      orders_(ranks),
      parts_(policy_, ranks),
      bound_(options_, policy_, ranks),
      skipped_(options.max_skipped_steps, /*sound=*/0) {
  base::ReturnFreedMemory();  // so that later memory peaks come from the steps themselves
}

std::string Trainer::Describe() const {
  return absl::StrCat("objective ", objective_->Describe(), "; ", DescribeRest(options_));
}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(const TrainerOptions& options,
                                                         const model::ModelConfig& config,
                                                         const model::Parameters& parameters, const base::Clock& clock,
                                                         Ranks* ranks) {
  return Make(options, config, parameters, /*copy=*/true, clock, ranks);
}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(const TrainerOptions& options,
                                                         const model::ModelConfig& config,
                                                         model::Parameters&& parameters, const base::Clock& clock,
                                                         Ranks* ranks) {
  return Make(options, config, std::exchange(parameters, {}), /*copy=*/false, clock, ranks);
}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Make(const TrainerOptions& options, const model::ModelConfig& config,
                                                       model::Parameters parameters, bool copy,
                                                       const base::Clock& clock, Ranks* ranks) {
  INGOT_RETURN_IF_ERROR(base::Annotate(options.Validate(), "trainer options"));
  INGOT_ASSIGN_OR_RETURN(std::unique_ptr<Objective> objective, MakeObjective(options, MakeCustomObjective));
  return AtTorchEdge("trainer", [&]() -> absl::StatusOr<std::unique_ptr<Trainer>> {
    if (parameters.tensors().empty()) return absl::InvalidArgumentError("the model has no parameters");
    const at::Device device = parameters.tensors().begin()->second.device();
    const at::ScalarType given = parameters.tensors().begin()->second.scalar_type();
    const int64_t held = copy || HeldType(options.dtype, given) != given ? 0 : BytesOf(parameters);
    INGOT_RETURN_IF_ERROR(CheckRunFits(options, config, device, ranks, given, held));
    INGOT_ASSIGN_OR_RETURN(model::Transformer model, TrainedModel(config, parameters, device, options.dtype, copy));
    parameters = {};
    INGOT_RETURN_IF_ERROR(TakeFromRankZero(model.parameters(), ranks));
    INGOT_RETURN_IF_ERROR(CheckFinite(model.parameters()));
    std::unique_ptr<Trainer> trainer(new Trainer(options, std::move(model), std::move(objective), clock, ranks));
    INGOT_RETURN_IF_ERROR(trainer->policy_.reference().Start(trainer->parameters()));
    INGOT_RETURN_IF_ERROR(trainer->StartDraft({}, {}));
    INGOT_RETURN_IF_ERROR(trainer->StartMtp(options.draft.start));
    return trainer;
  });
}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Resume(const TrainerOptions& options,
                                                         const std::string& checkpoint_path, at::Device device,
                                                         const base::Clock& clock, Ranks* ranks) {
  INGOT_RETURN_IF_ERROR(base::Annotate(options.Validate(), "trainer options"));
  INGOT_ASSIGN_OR_RETURN(std::unique_ptr<Objective> objective, MakeObjective(options, MakeCustomObjective));
  return AtTorchEdge("resume", [&]() -> absl::StatusOr<std::unique_ptr<Trainer>> {
    const auto config = model::ModelConfig::FromFile(checkpoint_path + "/config.json");
    // If it cannot be read, ReadCheckpoint reports the reason.
    if (config.ok()) INGOT_RETURN_IF_ERROR(CheckRunFits(options, *config, device, ranks));
    INGOT_ASSIGN_OR_RETURN(CheckpointContents contents, ReadCheckpoint(checkpoint_path));
    if (contents.seed != options.seed) {
      INGOT_LOG(warn, "{} was created with seed {}, but the configuration has {}", checkpoint_path, contents.seed,
                options.seed);
    }
    INGOT_ASSIGN_OR_RETURN(model::Transformer model,
                           TrainedModel(contents.config, contents.parameters, device, options.dtype, /*copy=*/false));
    contents.parameters = {};
    std::unique_ptr<Trainer> trainer(new Trainer(options, std::move(model), std::move(objective), clock, ranks));
    INGOT_RETURN_IF_ERROR(base::Annotate(trainer->policy_.LoadOptimizer(checkpoint_path, contents),
                                         absl::StrCat("checkpoint ", checkpoint_path)));
    INGOT_RETURN_IF_ERROR(trainer->policy_.reference().Restore(checkpoint_path, contents.step, device));
    INGOT_RETURN_IF_ERROR(trainer->ResumeDraft(checkpoint_path));
    INGOT_RETURN_IF_ERROR(trainer->StartMtp(checkpoint_path));
    trainer->policy_.SetVersion(contents.step);
    trainer->skipped_.NoteSound(contents.step);
    trainer->next_group_ = contents.next_group;
    if (!Leads(ranks)) return trainer;  // only rank 0's weights are published
    INGOT_ASSIGN_OR_RETURN(const auto snapshot, trainer->TakeSnapshot());
    if (snapshot->policy_checksum() != contents.weights_checksum) {
      return absl::DataLossError(
          absl::StrCat("checkpoint ", checkpoint_path, ": its weights do not match the checksum in its state.json"));
    }
    return trainer;
  });
}

absl::Status Trainer::StartDraft(const model::DraftTensors& tensors, const std::map<std::string, at::Tensor>& state) {
  if (!options_.draft.enabled) return absl::OkStatus();
  if (ranks_ != nullptr) {
    return absl::UnimplementedError(
        "draft.enabled is true, but several ranks cannot train a draft head yet: set it to false or "
        "cluster.trainer_ranks to 1");
  }
  const bool fresh = tensors.empty() && !options_.draft.start.empty();
  INGOT_ASSIGN_OR_RETURN(const model::DraftTensors start,
                         fresh ? model::ReadDraftHead(options_.draft.start) : model::DraftTensors(tensors));
  INGOT_ASSIGN_OR_RETURN(draft_, DraftTrainer::Create(options_.draft, policy_.model(), start, options_.seed,
                                                      options_.logits_chunk_elements, clock_));
  if (!state.empty()) INGOT_RETURN_IF_ERROR(draft_->Restore(tensors, state));
  policy_.Carry(draft_->published());
  return absl::OkStatus();
}

absl::Status Trainer::StartMtp(const std::string& dir) {
  if (dir.empty() || !Leads(ranks_)) return absl::OkStatus();
  INGOT_ASSIGN_OR_RETURN(mtp_, model::ReadMtpHeadOrWarn(dir, policy_.config()));
  if (draft_ != nullptr || mtp_.empty()) return absl::OkStatus();
  if (ranks_ == nullptr) {
    policy_.Carry(model::MtpDraft(policy_.config(), mtp_));
  } else {
    INGOT_LOG(warn, "engines do not draft with the model's prediction layers, because there are several trainer ranks");
  }
  return absl::OkStatus();
}

absl::Status Trainer::WarmUpDraft(const std::vector<tree::CallPath>& calls, const SftObserver& observer) {
  if (draft_ == nullptr) return absl::OkStatus();
  UseThreads();
  INGOT_RETURN_IF_ERROR(CheckExamples(calls));
  INGOT_RETURN_IF_ERROR(trainer::WarmUpDraft(options_, policy_, *draft_, calls, observer));
  policy_.Carry(draft_->published());
  return absl::OkStatus();
}

// A checkpoint without a head, from a run without one, starts a new head.
absl::Status Trainer::ResumeDraft(const std::string& checkpoint) {
  if (!options_.draft.enabled) return absl::OkStatus();
  INGOT_ASSIGN_OR_RETURN(const model::DraftTensors tensors, model::ReadDraftHead(checkpoint));
  std::map<std::string, at::Tensor> state;
  if (!tensors.empty()) {
    INGOT_ASSIGN_OR_RETURN(state, ReadDraftState(checkpoint));
  }
  return base::Annotate(StartDraft(tensors, state), absl::StrCat("checkpoint ", checkpoint));
}

// Sets the calling thread's number of compute threads. The setting is per thread, so every entry point calls this.
void Trainer::UseThreads() const {
  if (options_.threads > 0) kernels::UseThreads(options_.threads);
}

absl::Status Trainer::CheckExamples(const std::vector<tree::CallPath>& calls) const {
  for (const tree::CallPath& call : calls) {
    INGOT_RETURN_IF_ERROR(CheckCall(call, policy_.Limits(), /*recorded=*/false));
  }
  return absl::OkStatus();
}

absl::Status Trainer::RunSft(const std::vector<tree::CallPath>& calls, const SftObserver& observer,
                             const std::string& checkpoints, int threads) {
  return RunStage(StageKind::kSft, calls, observer, checkpoints, threads);
}

absl::Status Trainer::RunDpo(const std::vector<tree::CallPath>& calls, const SftObserver& observer,
                             const std::string& checkpoints, int threads) {
  return RunStage(StageKind::kDpo, calls, observer, checkpoints, threads);
}

absl::Status Trainer::RunStage(StageKind kind, const std::vector<tree::CallPath>& calls, const SftObserver& observer,
                               const std::string& checkpoints, int threads) {
  if (version() != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("supervised training comes before the first step; this trainer is at version ", version()));
  }
  if (!Leads(ranks_)) return absl::FailedPreconditionError("only rank 0 can run a stage");
  INGOT_RETURN_IF_ERROR(CheckExamples(calls));  // now, not in the middle of the stage
  const absl::Status done = StageLoop(MakeStage(kind, threads), calls, observer, options_.seed).Run(checkpoints);
  ForgetStage();
  return done;
}

StageRun& Trainer::MakeStage(StageKind kind, int threads) {
  return stage_.emplace(kind, threads,
                        StageRun::Context{options_, ranks_, policy_, orders_, exchanges_, bound_, clock_});
}

void Trainer::ForgetStage() {
  stage_.reset();
  skipped_.NoteSound(version());
}

absl::StatusOr<CheckpointInfo> Trainer::SaveCheckpoint(const std::string& root,
                                                       const std::map<std::string, std::string>& extra_files) {
  return Save(root, version(), extra_files);
}

absl::StatusOr<CheckpointInfo> Trainer::Save(const std::string& root, int64_t step,
                                             const std::map<std::string, std::string>& extra_files) {
  if (stage_) return stage_->Save(root, step, extra_files);
  const base::WorkPart shown(absl::StrCat("writing checkpoint ", step));
  INGOT_RETURN_IF_ERROR(orders_.Save(root, step));
  CheckpointContents contents;
  if (policy_.publishes_in_parts()) {
    INGOT_RETURN_IF_ERROR(parts_.Take());  // sets the name of the weights
    contents.weights_checksum = parts_.checksum();
  }
  contents.step = step;
  contents.seed = options_.seed;
  contents.next_group = next_group_;
  contents.total_steps = options_.total_steps;
  contents.schedule = options_.optimizer;
  contents.reference = policy_.reference().Saved(version());
  if (draft_ != nullptr) {
    contents.draft = draft_->tensors();
    contents.draft_state = draft_->State();
  }
  contents.mtp = mtp_;
  model::UpdateMtpCopies(policy_.config(), policy_.parameters(), &contents.mtp);
  contents.last_sound_step = skipped_.last_sound_step();
  contents.keep_every = options_.keep_every;
  return SavePolicy(policy_, ranks_, root, std::move(contents), extra_files, options_.keep_checkpoints);
}

void Trainer::StoreVersionsIn(weights::VersionStore store) { parts_.StoreIn(std::move(store)); }

absl::StatusOr<std::shared_ptr<const weights::Snapshot>> Trainer::StoreVersion(const weights::HeldVersion& base,
                                                                               bool anchor) {
  UseThreads();
  const StoreOrder order = parts_.OrderFor(base, anchor);
  INGOT_RETURN_IF_ERROR(orders_.Store(order));
  return parts_.Store(order);
}

void Trainer::ReleaseUnusedMemory() const {
  const absl::Status released = AtTorchEdge("releasing unused memory", [&] {
    ReleaseTensorMemory(policy_.device());
    return absl::OkStatus();
  });
  if (!released.ok()) INGOT_LOG(warn, "trainer: {}", std::string(released.message()));
}

absl::Status Trainer::Follow() {
  return orders_.Follow({
      .step =
          [this](const TrainBatch& batch) {
            const absl::Status stepped = TrainStep(batch).status();
            if (options_.shares_device) ReleaseUnusedMemory();
            return stepped;
          },
      .save = [this](const std::string& root, int64_t step) { return Save(root, step, {}).status(); },
      .store = [this](const StoreOrder& order) { return parts_.Store(order).status(); },
      .begin_stage = [this](StageKind kind, const std::string& checkpoint,
                            int threads) { return MakeStage(kind, threads).Begin(checkpoint); },
      .stage_step = [this](const std::vector<tree::CallPath>& calls, int64_t step,
                           double learning_rate) { return stage_->Step(calls, step, learning_rate).status(); },
      .end_stage =
          [this] {
            const absl::Status ended = stage_->End();
            ForgetStage();
            return ended;
          },
  });
}

absl::Status Trainer::Dismiss() { return orders_.Dismiss(); }

}  // namespace ingot::trainer
