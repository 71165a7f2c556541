#include "trainer/trainer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <utility>

#include "base/log.h"
#include "base/process_memory.h"
#include "kernels/torch/threads.h"
#include "model/layer_spec.h"
#include "trainer/parallel/rank_memory.h"
#include "trainer/parallel/wire.h"
#include "trainer/parameter_memory.h"
#include "trainer/pass/gradient_faults.h"
#include "trainer/pass/memory.h"
#include "trainer/pass/tensor_memory.h"
#include "trainer/torch_edge.h"
#include "trainer/weights_of.h"

namespace ingot::trainer {
namespace {

at::ScalarType Dtype(const std::string& option, at::ScalarType given) {
  if (option == "model") return given;
  return option == "bf16" ? at::kBFloat16 : at::kFloat;
}

absl::StatusOr<model::Transformer> OwnedModel(const model::ModelConfig& config, const model::Parameters& parameters,
                                              at::Device device, const std::string& dtype, bool trainable = true,
                                              bool copy = true) {
  const at::NoGradGuard no_history;
  const model::ModelSpec spec = model::SpecOf(config);
  const auto table = spec.Tensors();
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, tensor] : parameters.tensors()) {
    const auto entry = table.find(name);
    const bool trained = trainable && (entry == table.end() || entry->second->trained);
    // A bias moves by a small constant, which bf16 would round away.
    const bool bias = entry != table.end() && entry->second->part == model::Part::kCorrectionBias;
    const at::ScalarType asked = Dtype(dtype, tensor.scalar_type());
    const at::ScalarType type = bias ? at::promote_types(asked, at::kFloat) : asked;
    if (trainable && type == at::kHalf) {
      return absl::InvalidArgumentError(
          "the model's weights are fp16, whose smallest numbers are larger than most gradients: set trainer.dtype to "
          "bf16 or fp32 (a frozen base takes the type of its adapters)");
    }
    tensors[name] = tensor.detach()
                        .to(tensor.options().device(device).dtype(type), /*non_blocking=*/false, copy)
                        .contiguous()
                        .requires_grad_(trained);
  }
  INGOT_ASSIGN_OR_RETURN(model::Parameters owned, model::Parameters::FromTensors(config, std::move(tensors)));
  return model::Transformer::Create(config, std::move(owned));
}

absl::Status TakeFromRankZero(const model::Parameters& parameters, Ranks* ranks) {
  if (ranks == nullptr) return absl::OkStatus();
  for (const auto& [name, tensor] : parameters.tensors()) INGOT_RETURN_IF_ERROR(ranks->Broadcast(tensor, 0));
  return absl::OkStatus();
}

// The bounds of a mask; 0 above = none.
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

bool ByLayer(const TrainerOptions& options) { return options.sharding == "layers"; }

std::unique_ptr<LayerShards> Shards(const TrainerOptions& options, const model::Transformer& model, Ranks* ranks) {
  if (ranks == nullptr || !ByLayer(options)) return nullptr;
  return std::make_unique<LayerShards>(model.config(), model.parameters().tensors(), *ranks);
}

PassOptions PassesOf(const TrainerOptions& options, LayerWeights* weights) {
  PassOptions pass = PassOptionsOf(options);
  pass.weights = weights;
  return pass;
}

// The memory that this rank needs, including its reference policy, if any.
MemoryNeed NeedOf(const TrainerOptions& options, const model::ModelConfig& config, int element_bytes,
                  const PassOptions& pass, std::span<const tree::ForestPart> parts,
                  const std::optional<RankPlace>& place, bool reference, bool stores) {
  MemoryNeed need = PredictRankMemory(config, element_bytes, pass, parts, place, ByLayer(options));
  const int ranks = place.value_or(RankPlace{}).size;
  const bool publishes = place.value_or(RankPlace{}).leads();
  const int64_t weights = WeightBytes(config, element_bytes);
  // Published: the newest version and the memory for the next version. If ranks store versions, each rank has both for
  // its own part.
  need.copies = reference ? weights : 0;
  if (stores) {
    need.copies += 2 * weights / ranks;
  } else if (publishes) {
    need.copies += 2 * weights;
  }
  if (options.trust_region.on()) {
    // The masters before the step, divided as the optimizer's state is, and the policies before it (fp32, or fp64).
    const int64_t wide = element_bytes == 8 ? 8 : 4;
    int64_t rows = 0;  // of the batch
    for (const tree::ForestPart& part : parts) rows += part.size();
    const int64_t held = std::min(options.trust_region.MostRows(config.vocab_size * wide), rows + rows / 4);
    need.copies += model::SpecOf(config).trained_elements() * wide / ranks + held * config.vocab_size * wide;
  }
  return need;
}

int64_t LimitBytes(const TrainerOptions& options) { return options.memory_limit_mb << 20; }

int64_t BytesOf(const model::Parameters& parameters) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : parameters.tensors()) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

// Of model, optimizer and one micro-batch.
MemoryNeed FirstNeed(const TrainerOptions& options, const model::ModelConfig& config, at::ScalarType given,
                     const std::optional<RankPlace>& place) {
  const PassOptions pass = PassOptionsOf(options);
  const tree::ForestPart part = UncutPart(pass.part_tokens);
  const auto bytes = static_cast<int>(c10::elementSize(Dtype(options.dtype, given)));
  return NeedOf(options, config, bytes, pass, std::span(&part, 1), place, /*reference=*/options.needs_reference(),
                /*stores=*/false);
}

at::ScalarType TypeOf(const model::ModelConfig& config) {
  const std::string& type = config.torch_dtype;
  return type == "float64"    ? at::kDouble
         : type == "bfloat16" ? at::kBFloat16
         : type == "float16"  ? at::kHalf
                              : at::kFloat;
}

// Checks memory for model, optimizer and one micro-batch. `held`: bytes of the model that are already allocated.
absl::Status CheckRunMemory(const TrainerOptions& options, const model::ModelConfig& config, at::ScalarType given,
                            at::Device device, const Ranks* ranks, bool say, int64_t held = 0) {
  INGOT_RETURN_IF_ERROR(config.CheckDevice(device.str()));
  if (!device.is_cpu()) return absl::OkStatus();
  const PassOptions pass = PassOptionsOf(options);
  const MemoryNeed need = FirstNeed(options, config, given, PlaceOf(ranks));
  const int64_t available =
      options.memory_limit_mb > 0 ? LimitBytes(options) : base::AvailableMemory(RanksHere(ranks)) + held;
  if (say) INGOT_LOG(info, "a micro-batch of {} tokens needs {}", pass.part_tokens, need.Describe());
  return CheckMemory(need, need.total(), available, "the run", pass);
}

// The same for a model that is not loaded yet. `say`: the need is logged.
absl::Status CheckShape(const TrainerOptions& options, const model::ModelConfig& config, at::Device device,
                        Ranks* ranks, bool say) {
  const absl::Status fits = CheckRunMemory(options, config, TypeOf(config), device, ranks, say);
  return ranks == nullptr ? fits : ranks->Agree(fits);
}

}  // namespace

Trainer::Trainer(const TrainerOptions& options, model::Transformer model, std::unique_ptr<Objective> objective,
                 const base::Clock& clock, Ranks* ranks)
    : options_(options),
      clock_(clock),
      model_(std::move(model)),
      objective_(std::move(objective)),
      ranks_(ranks),
      shards_(Shards(options, model_, ranks)),
      pass_options_(PassesOf(options, shards_.get())) {
  MakeOptimizer(options.optimizer);
  base::ReturnFreedMemory();  // so that later peaks of the process are the steps' own
}

std::string Trainer::Describe() const {
  return absl::StrCat("objective ", objective_->Describe(), "; ", DescribeRest(options_));
}

absl::Status Trainer::CheckFits(const TrainerOptions& options, const model::ModelConfig& config, at::Device device,
                                Ranks* ranks) {
  return AtTorchEdge("trainer", [&] { return CheckShape(options, config, device, ranks, /*say=*/false); });
}

TrainerBytes Trainer::LeastBytes(const TrainerOptions& options, const model::ModelConfig& config, int ranks) {
  TrainerBytes bytes;
  bytes.version = WeightBytes(config, static_cast<int>(c10::elementSize(Dtype(options.dtype, TypeOf(config)))));
  for (int rank = 0; rank < ranks; ++rank) {
    const std::optional<RankPlace> place = ranks > 1 ? std::optional(RankPlace{rank, ranks}) : std::nullopt;
    bytes.ranks.push_back(FirstNeed(options, config, TypeOf(config), place).total());
  }
  return bytes;
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
  INGOT_ASSIGN_OR_RETURN(std::unique_ptr<Objective> objective, MakeObjective(options));
  return AtTorchEdge("trainer", [&]() -> absl::StatusOr<std::unique_ptr<Trainer>> {
    if (parameters.tensors().empty()) return absl::InvalidArgumentError("the model has no parameters");
    const at::Device device = parameters.tensors().begin()->second.device();
    const at::ScalarType given = parameters.tensors().begin()->second.scalar_type();
    const int64_t held = copy || Dtype(options.dtype, given) != given ? 0 : BytesOf(parameters);
    const absl::Status fits = CheckRunMemory(options, config, given, device, ranks, /*say=*/true, held);
    INGOT_RETURN_IF_ERROR(ranks == nullptr ? fits : ranks->Agree(fits));
    INGOT_ASSIGN_OR_RETURN(model::Transformer model,
                           OwnedModel(config, parameters, device, options.dtype, /*trainable=*/true, copy));
    parameters = {};
    INGOT_RETURN_IF_ERROR(TakeFromRankZero(model.parameters(), ranks));
    INGOT_RETURN_IF_ERROR(CheckFinite(model.parameters()));
    std::unique_ptr<Trainer> trainer(new Trainer(options, std::move(model), std::move(objective), clock, ranks));
    INGOT_RETURN_IF_ERROR(trainer->SetReference(&trainer->parameters()));
    return trainer;
  });
}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Resume(const TrainerOptions& options,
                                                         const std::string& checkpoint_path, at::Device device,
                                                         const base::Clock& clock, Ranks* ranks) {
  INGOT_RETURN_IF_ERROR(base::Annotate(options.Validate(), "trainer options"));
  INGOT_ASSIGN_OR_RETURN(std::unique_ptr<Objective> objective, MakeObjective(options));
  return AtTorchEdge("resume", [&]() -> absl::StatusOr<std::unique_ptr<Trainer>> {
    const auto config = model::ModelConfig::FromFile(checkpoint_path + "/config.json");
    // If it cannot be read, ReadCheckpoint says why.
    if (config.ok()) INGOT_RETURN_IF_ERROR(CheckShape(options, *config, device, ranks, /*say=*/true));
    INGOT_ASSIGN_OR_RETURN(CheckpointContents contents, ReadCheckpoint(checkpoint_path));
    if (contents.seed != options.seed) {
      INGOT_LOG(warn, "{} was made with seed {}, the configuration says {}", checkpoint_path, contents.seed,
                options.seed);
    }
    INGOT_ASSIGN_OR_RETURN(model::Transformer model,
                           OwnedModel(contents.config, contents.parameters, device, options.dtype,
                                      /*trainable=*/true, /*copy=*/false));
    contents.parameters = {};
    std::unique_ptr<Trainer> trainer(new Trainer(options, std::move(model), std::move(objective), clock, ranks));
    INGOT_RETURN_IF_ERROR(base::Annotate(trainer->LoadOptimizer(checkpoint_path, contents),
                                         absl::StrCat("checkpoint ", checkpoint_path)));
    INGOT_RETURN_IF_ERROR(trainer->RestoreReference(checkpoint_path, contents.step));
    trainer->version_ = trainer->last_sound_ = contents.step;
    trainer->next_group_ = contents.next_group;
    if (ranks != nullptr && !ranks->leads()) return trainer;  // only rank 0's weights are published
    INGOT_ASSIGN_OR_RETURN(const auto snapshot, trainer->TakeSnapshot());
    if (snapshot->checksum() != contents.weights_checksum) {
      return absl::DataLossError(
          absl::StrCat("checkpoint ", checkpoint_path, ": its weights do not have the checksum in its state.json"));
    }
    return trainer;
  });
}

void Trainer::MakeOptimizer(const OptimizerOptions& options) {
  std::map<std::string, at::Tensor> trained;
  for (const auto& [name, tensor] : model_.parameters().tensors()) {
    if (tensor.requires_grad()) trained[name] = tensor;
  }
  optimizer_.emplace(options, trained, ranks_, /*publishes=*/shards_ == nullptr);
  optimizer_->SendChanges(!stores());
  marked_from_ = part_marked_from_ = 0;
}

absl::Status Trainer::LoadOptimizer(const std::string& checkpoint_path, const CheckpointContents& contents) {
  INGOT_RETURN_IF_ERROR(
      ReadOptimizer(checkpoint_path, contents.optimizer_shards, optimizer_->State(), /*all=*/ranks_ == nullptr));
  optimizer_->SetSteps(contents.optimizer_steps);
  return absl::OkStatus();
}

absl::Status Trainer::CopyReference(const model::Parameters& from) {
  const at::Device device = from.tensors().begin()->second.device();
  INGOT_ASSIGN_OR_RETURN(reference_, OwnedModel(config(), from, device, options_.dtype, /*trainable=*/false));
  return absl::OkStatus();
}

absl::Status Trainer::SetReference(const model::Parameters* start) {
  if (!options_.needs_reference()) return absl::OkStatus();
  if (options_.reference_path.empty()) {
    if (start == nullptr) {
      return absl::FailedPreconditionError(
          "the reference policy is the run's start policy, which a later checkpoint does not hold: set "
          "trainer.reference_path to its model folder");
    }
    return CopyReference(*start);
  }
  const std::string context = absl::StrCat("reference policy ", options_.reference_path);
  absl::StatusOr<model::ModelFolder> loaded = model::LoadModelDir(options_.reference_path);
  if (!loaded.ok()) return base::Annotate(loaded.status(), context);
  if (loaded->config.vocab_size != config().vocab_size ||
      loaded->config.max_position_embeddings < config().max_position_embeddings) {
    return absl::InvalidArgumentError(absl::StrCat(
        context, " has a vocabulary of ", loaded->config.vocab_size, " and a context of ",
        loaded->config.max_position_embeddings, "; the model's are ", config().vocab_size, " and ",
        config().max_position_embeddings, ": it needs the same vocabulary and at least as many positions"));
  }
  const at::Device device = parameters().tensors().begin()->second.device();
  auto model = OwnedModel(loaded->config, loaded->parameters, device, options_.dtype, /*trainable=*/false);
  if (!model.ok()) return base::Annotate(model.status(), context);
  reference_ = *std::move(model);
  return absl::OkStatus();
}

absl::Status Trainer::RestoreReference(const std::string& checkpoint_path, int64_t step) {
  const int64_t every = options_.reference_update_every;
  if (every == 0 || step < every) {
    if (options_.needs_reference() && !absl::IsNotFound(ReadReference(checkpoint_path).status())) {
      return absl::FailedPreconditionError(
          absl::StrCat("checkpoint ", checkpoint_path, " holds a reference policy that has moved, but ",
                       "trainer.reference_update_every ", every,
                       " would restore the start policy: set the value that the checkpoint was written with"));
    }
    return SetReference(nullptr);
  }
  auto tensors = ReadReference(checkpoint_path);
  if (absl::IsNotFound(tensors.status())) {
    return absl::FailedPreconditionError(absl::StrCat(
        "checkpoint ", checkpoint_path, " is of step ", step, " and holds no reference policy, although ",
        "trainer.reference_update_every ", every, " would have moved it: the checkpoint was written with a larger ",
        "value or 0; set that value again, or resume from an earlier checkpoint"));
  }
  if (!tensors.ok()) return tensors.status();
  INGOT_ASSIGN_OR_RETURN(const model::Parameters loaded, model::Parameters::FromTensors(config(), *std::move(tensors)));
  const at::Device device = parameters().tensors().begin()->second.device();
  INGOT_ASSIGN_OR_RETURN(reference_, OwnedModel(config(), loaded, device, options_.dtype, /*trainable=*/false));
  return absl::OkStatus();
}

absl::Status Trainer::MoveReference() {
  if (options_.reference_update_every == 0 || version_ % options_.reference_update_every != 0) return absl::OkStatus();
  const absl::Status moved = AtTorchEdge("the reference policy", [&]() -> absl::Status {
    reference_.reset();  // before the copy: no more than one at a time
    return CopyReference(parameters());
  });
  return ShareError(moved);
}

// Sets the calling thread's number of compute threads. The setting is per thread, so every entry point makes it.
void Trainer::UseThreads() const {
  const int threads = stage_ && stage_->threads > 0 ? stage_->threads : options_.threads;
  if (threads > 0) kernels::UseThreads(threads);
}

TokenLimits Trainer::Limits() const {
  TokenLimits limits(config().vocab_size, config().max_position_embeddings);
  limits.experts = config().experts.count;
  limits.experts_per_token = config().experts.per_token;
  limits.routes_per_token = config().routes_per_token();
  return limits;
}

absl::Status Trainer::CheckStepMemory(const tree::PackedForest& forest, StepMetrics& metrics) const {
  const at::Tensor& any = parameters().tensors().begin()->second;
  if (!any.is_cpu()) return absl::OkStatus();
  const auto parts = tree::CutForest(forest, pass_options_.part_tokens);
  const auto bytes = static_cast<int>(any.element_size());
  const MemoryNeed need = NeedOf(options_, config(), bytes, pass_options_, parts, PlaceOf(ranks_),
                                 /*reference=*/reference_.has_value(), stores());
  metrics["perf/memory_predicted_bytes"] = static_cast<double>(need.total());
  metrics["perf/memory_bound_bytes"] = static_cast<double>(need.bound());
  const std::string what =
      absl::StrCat(stage_ ? absl::StrCat("a step of ", stage_->name) : absl::StrCat("step ", version_), " (",
                   forest.size(), " merged tokens in ", parts.size(), " parts)");
  if (options_.memory_limit_mb > 0) return CheckMemory(need, need.total(), LimitBytes(options_), what, pass_options_);
  const auto available = [this] { return base::AvailableMemory(RanksHere(ranks_)); };
  // The cache of tensor memory is available to this step too; it is returned to the system only if the numbers need it.
  if (need.step() > available()) ReleaseTensorMemory();
  return CheckMemory(need, need.step(), available(), what, pass_options_);
}

weights::CopyOptions Trainer::CopiesInto(std::shared_ptr<const weights::Changes> changes) {
  return {.threads = at::get_num_threads(), .buffers = &buffers_, .changes = std::move(changes)};
}

absl::StatusOr<std::shared_ptr<const weights::Snapshot>> Trainer::TakeSnapshot() {
  if (snapshot_ != nullptr) return snapshot_;
  if (divided()) return absl::InternalError("only rank 0 has the snapshot of divided parameters");
  std::map<std::string, RoundedParameter> rounded = TakeRounded();
  std::shared_ptr<weights::Changes> changes;
  if (marked_from_ != 0) {
    changes = std::make_shared<weights::Changes>(marked_from_);
    for (auto& [name, parameter] : rounded) changes->masks[name] = std::move(parameter.changes);
  }
  marked_from_ = part_marked_from_ = 0;
  INGOT_ASSIGN_OR_RETURN(snapshot_,
                         SnapshotOf(version_, parameters().tensors(), CopiesInto(std::move(changes)), rounded));
  marked_from_ = snapshot_->checksum();
  if (shards_ == nullptr) ShareFrozen(*snapshot_);  // most of the memory of a divided base is freed
  return snapshot_;
}

std::map<std::string, RoundedParameter> Trainer::TakeRounded() {
  std::map<std::string, RoundedParameter> rounded = optimizer_->TakeRounded();
  for (const auto& [name, frozen] : frozen_) {
    if (parameters().at(name).const_data_ptr() == frozen.memory.get()) rounded[name] = frozen;
  }
  return rounded;
}

void Trainer::ShareFrozen(const weights::Snapshot& snapshot) {
  for (size_t i = 0; i < snapshot.size(); ++i) {
    const weights::TensorView view = snapshot.view(i);
    const at::Tensor& parameter = parameters().at(view.name);
    // A vector may be a router's bias, which changes without the optimizer.
    if (parameter.requires_grad() || parameter.dim() < 2 || !parameter.is_cpu() || !OwnsItsMemory(parameter)) continue;
    if (parameter.const_data_ptr() != view.bytes.data()) PointAt(parameter, view.owner);
    frozen_[view.name] = {.changes = {}, .memory = view.owner, .checksum = view.checksum};
  }
}

absl::StatusOr<CheckpointContents> Trainer::Contents(int64_t step) {
  CheckpointContents contents;
  contents.step = step;
  contents.seed = options_.seed;
  if (stores()) {
    contents.weights_checksum = part_.whole.checksum();
  } else {
    INGOT_ASSIGN_OR_RETURN(const auto snapshot, TakeSnapshot());
    contents.weights_checksum = snapshot->checksum();
  }
  contents.next_group = next_group_;
  contents.total_steps = stage_ ? 0 : options_.total_steps;
  contents.schedule = stage_ ? stage_->options.optimizer : options_.optimizer;
  contents.config = config();
  if (!stage_ && reference_ && options_.reference_update_every > 0 && version_ >= options_.reference_update_every) {
    contents.reference = reference_->parameters().tensors();
  }
  contents.optimizer_steps = optimizer_->steps();
  if (not_finite_in_a_row_ > 0) contents.last_sound_step = last_sound_;
  if (!stage_) contents.keep_every = options_.keep_every;
  return contents;
}

absl::StatusOr<CheckpointInfo> Trainer::SaveCheckpoint(const std::string& root,
                                                       const std::map<std::string, std::string>& extra_files) {
  return Save(root, version_, extra_files);
}

absl::StatusOr<CheckpointInfo> Trainer::Save(const std::string& root, int64_t step,
                                             const std::map<std::string, std::string>& extra_files) {
  if (ranks_ != nullptr) {
    Writer order;
    order.Put(step).PutText(root);
    INGOT_RETURN_IF_ERROR(SendOrder(Order::kSave, order.Release()));
    return SaveTogether(root, step, extra_files);
  }
  INGOT_ASSIGN_OR_RETURN(CheckpointContents contents, Contents(step));
  contents.parameters = parameters();
  contents.optimizer = optimizer_->State();
  return WriteCheckpoint(root, contents, extra_files, options_.keep_checkpoints);
}

}  // namespace ingot::trainer
