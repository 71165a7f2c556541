#include "trainer/trainer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <chrono>
#include <cmath>

#include "base/log.h"
#include "trainer/gradient_faults.h"
#include "trainer/memory.h"
#include "trainer/process_memory.h"
#include "trainer/schedule.h"
#include "trainer/torch_edge.h"

namespace ingot::trainer {
namespace {

double Seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

// The calling thread's share of the cores; it is the thread's own setting, so every entry point makes it.
void UseThreads(int threads) {
  if (threads > 0 && at::get_num_threads() != threads) at::set_num_threads(threads);
}

at::ScalarType Dtype(const std::string& option, at::ScalarType given) {
  if (option == "model") return given;
  return option == "bf16" ? at::kBFloat16 : at::kFloat;
}

absl::StatusOr<model::Transformer> OwnedModel(const model::ModelConfig& config, const model::Parameters& parameters,
                                              at::Device device, const std::string& dtype, bool trainable = true) {
  const at::NoGradGuard no_history;
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, tensor] : parameters.tensors()) {
    tensors[name] = tensor.detach()
                        .to(tensor.options().device(device).dtype(Dtype(dtype, tensor.scalar_type())),
                            /*non_blocking=*/false, /*copy=*/true)
                        .contiguous()
                        .requires_grad_(trainable);
  }
  INGOT_ASSIGN_OR_RETURN(model::Parameters owned, model::Parameters::FromTensors(config, std::move(tensors)));
  return model::Transformer::Create(config, std::move(owned));
}

std::string DtypeName(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "F32";
    case at::kBFloat16:
      return "BF16";
    case at::kHalf:
      return "F16";
    default:
      return at::toString(type);  // refused by the snapshot
  }
}

std::string DescribeRest(const TrainerOptions& o) {
  std::string text =
      absl::StrCat("loss aggregated per ", o.loss_aggregation, ", advantages: credit ", o.advantage_credit,
                   ", baseline ", o.advantage_baseline, ", normalization ", o.advantage_normalization);
  if (o.reference_kl_coefficient > 0)
    absl::StrAppend(&text, ", KL to the reference times ", o.reference_kl_coefficient);
  return text;
}

int64_t LimitBytes(const TrainerOptions& options) { return options.memory_limit_mb << 20; }

// Before anything is allocated: model, optimizer and one micro-batch.
absl::Status CheckRunMemory(const TrainerOptions& options, const model::ModelConfig& config, at::ScalarType given,
                            at::Device device) {
  if (!device.is_cpu()) return absl::OkStatus();
  const PassOptions pass = PassOptionsOf(options);
  const tree::ForestPart part = UncutPart(pass.part_tokens);
  const auto bytes = static_cast<int>(c10::elementSize(Dtype(options.dtype, given)));
  const MemoryNeed need = PredictMemory(config, bytes, pass, std::span(&part, 1));
  const int64_t available = options.memory_limit_mb > 0 ? LimitBytes(options) : AvailableMemory();
  INGOT_LOG(info, "a micro-batch of {} tokens needs {}", pass.part_tokens, need.Describe());
  return CheckMemory(need, need.total(), available, "the run", pass);
}

// Which calls of the probe are scored together. fast: each by itself, as the engine ran it; exact: merged as they would
// be trained, since merging must not change a bit.
std::vector<std::vector<int32_t>> ProbeLayout(const TrainerOptions& options, const std::vector<tree::FlatCall>& calls) {
  if (options.numerics == kernels::Numerics::kExact) return {tree::OrderChainFirst(calls)};
  std::vector<std::vector<int32_t>> alone;
  for (int32_t call = 0; call < static_cast<int32_t>(calls.size()); ++call) alone.push_back({call});
  return alone;
}

bool OnPolicy(const tree::FlatCall& call, size_t offset, int64_t version) {
  return call.versions[offset] == version && call.kv_mixed[offset] == 0;
}

}  // namespace

// What a step adds up.
struct Trainer::StepTally {
  double loss = 0;
  int64_t merged_tokens = 0;
  int64_t parts = 0;
  double pass_seconds = 0;  // forward, loss and backward
  StepWork work, unmerged;  // the same
  MeanMax entropy;
  LogprobGap offpolicy;  // every trained token
  LogprobGap mismatch;   // the probe's tokens (ProbeLayout)
  LogprobGap packed;     // the batch's tokens that the engine sampled at this version, scored in merged forests
};

Trainer::Trainer(const TrainerOptions& options, model::Transformer model, std::unique_ptr<Objective> objective,
                 const base::Clock& clock)
    : options_(options),
      clock_(clock),
      model_(std::move(model)),
      objective_(std::move(objective)),
      pass_options_(PassOptionsOf(options)),
      optimizer_(options.optimizer, model_.parameters().tensors()) {
  ReturnFreedMemory();  // what is predicted of a step is then what the process holds
  INGOT_LOG(info, "objective {}; {}", objective_->Describe(), DescribeRest(options_));
}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(const TrainerOptions& options,
                                                         const model::ModelConfig& config,
                                                         const model::Parameters& parameters,
                                                         const base::Clock& clock) {
  INGOT_RETURN_IF_ERROR(base::Annotate(options.Validate(), "trainer options"));
  INGOT_ASSIGN_OR_RETURN(std::unique_ptr<Objective> objective, MakeObjective(options));
  return AtTorchEdge("trainer", [&]() -> absl::StatusOr<std::unique_ptr<Trainer>> {
    if (parameters.tensors().empty()) return absl::InvalidArgumentError("the model has no parameters");
    const at::Device device = parameters.tensors().begin()->second.device();
    INGOT_RETURN_IF_ERROR(CheckRunMemory(options, config, parameters.tensors().begin()->second.scalar_type(), device));
    INGOT_ASSIGN_OR_RETURN(model::Transformer model, OwnedModel(config, parameters, device, options.dtype));
    std::unique_ptr<Trainer> trainer(new Trainer(options, std::move(model), std::move(objective), clock));
    INGOT_RETURN_IF_ERROR(trainer->SetReference(&trainer->parameters()));
    return trainer;
  });
}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Resume(const TrainerOptions& options,
                                                         const std::string& checkpoint_path, at::Device device,
                                                         const base::Clock& clock) {
  INGOT_RETURN_IF_ERROR(base::Annotate(options.Validate(), "trainer options"));
  INGOT_ASSIGN_OR_RETURN(std::unique_ptr<Objective> objective, MakeObjective(options));
  return AtTorchEdge("resume", [&]() -> absl::StatusOr<std::unique_ptr<Trainer>> {
    INGOT_ASSIGN_OR_RETURN(const CheckpointContents contents, ReadCheckpoint(checkpoint_path));
    if (contents.seed != options.seed) {
      INGOT_LOG(warn, "{} was made with seed {}, the configuration says {}", checkpoint_path, contents.seed,
                options.seed);
    }
    INGOT_ASSIGN_OR_RETURN(model::Transformer model,
                           OwnedModel(contents.config, contents.parameters, device, options.dtype));
    std::unique_ptr<Trainer> trainer(new Trainer(options, std::move(model), std::move(objective), clock));
    INGOT_RETURN_IF_ERROR(base::Annotate(trainer->optimizer_.LoadState(contents.optimizer, contents.optimizer_steps),
                                         absl::StrCat("checkpoint ", checkpoint_path)));
    INGOT_RETURN_IF_ERROR(trainer->SetReference(nullptr));
    trainer->version_ = contents.step;
    INGOT_ASSIGN_OR_RETURN(const auto snapshot, trainer->TakeSnapshot());
    if (snapshot->checksum() != contents.weights_checksum) {
      return absl::DataLossError(
          absl::StrCat("checkpoint ", checkpoint_path, ": its weights are not those state.json names"));
    }
    return trainer;
  });
}

absl::Status Trainer::SetReference(const model::Parameters* start) {
  if (!options_.needs_reference()) return absl::OkStatus();
  const at::Device device = parameters().tensors().begin()->second.device();
  if (options_.reference_path.empty()) {
    if (start == nullptr) {
      return absl::FailedPreconditionError(
          "the reference policy is the one the run started from, which a later checkpoint does not hold: set "
          "trainer.reference_path to its model folder");
    }
    INGOT_ASSIGN_OR_RETURN(reference_, OwnedModel(config(), *start, device, options_.dtype, /*trainable=*/false));
    return absl::OkStatus();
  }
  const std::string context = absl::StrCat("reference policy ", options_.reference_path);
  absl::StatusOr<model::LoadedModel> loaded = model::LoadModelDir(options_.reference_path);
  if (!loaded.ok()) return base::Annotate(loaded.status(), context);
  if (loaded->config.vocab_size != config().vocab_size ||
      loaded->config.max_position_embeddings < config().max_position_embeddings) {
    return absl::InvalidArgumentError(
        absl::StrCat(context, " has a vocabulary of ", loaded->config.vocab_size, " and a context of ",
                     loaded->config.max_position_embeddings, "; the model's are ", config().vocab_size, " and ",
                     config().max_position_embeddings, ": it must know the same tokens and as many positions"));
  }
  auto model = OwnedModel(loaded->config, loaded->parameters, device, options_.dtype, /*trainable=*/false);
  if (!model.ok()) return base::Annotate(model.status(), context);
  reference_ = *std::move(model);
  return absl::OkStatus();
}

absl::Status Trainer::RunSupervised(const std::function<absl::Status()>& stage) {
  if (version_ != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("supervised training comes before the first step; this trainer is at version ", version_));
  }
  UseThreads(options_.threads);
  snapshot_ = nullptr;
  return AtTorchEdge("supervised training", [&] {
    INGOT_RETURN_IF_ERROR(stage());
    return SetReference(&parameters());
  });
}

absl::Status Trainer::RunSft(const std::vector<tree::FlatCall>& calls, const SftObserver& observer) {
  return RunSupervised([&] { return RunSftStage(model_, options_, calls, clock_, observer); });
}

absl::Status Trainer::RunDpo(const std::vector<tree::FlatCall>& calls, const SftObserver& observer) {
  return RunSupervised([&]() -> absl::Status {
    const at::Device device = parameters().tensors().begin()->second.device();
    INGOT_ASSIGN_OR_RETURN(const model::Transformer start,
                           OwnedModel(config(), parameters(), device, options_.dtype, /*trainable=*/false));
    return RunDpoStage(model_, start, options_, calls, clock_, observer);
  });
}

TokenLimits Trainer::Limits() const { return {config().vocab_size, config().max_position_embeddings}; }

absl::Status Trainer::CheckStepMemory(const tree::PackedForest& forest, StepMetrics& metrics) const {
  const at::Tensor& any = parameters().tensors().begin()->second;
  if (!any.is_cpu()) return absl::OkStatus();
  const auto parts = tree::CutForest(forest, pass_options_.part_tokens);
  const MemoryNeed need = PredictMemory(config(), static_cast<int>(any.element_size()), pass_options_, parts);
  metrics["perf/memory_predicted_bytes"] = static_cast<double>(need.total());
  const bool limited = options_.memory_limit_mb > 0;
  return CheckMemory(
      need, limited ? need.total() : need.step(), limited ? LimitBytes(options_) : AvailableMemory(),
      absl::StrCat("step ", version_, " (", forest.size(), " merged tokens in ", parts.size(), " parts)"),
      pass_options_);
}

void Trainer::AccumulateBatch(const PreparedBatch& batch, const tree::PackedForest& forest, StepLoss& loss,
                              StepTally& tally) {
  ScoreForests(model_, reference_ ? &*reference_ : nullptr, std::span(&forest, 1), batch.calls, loss, pass_options_);
  PassOptions options = pass_options_;
  options.part_done = [this] { optimizer_.CollectGradients(); };
  const Seconds2 start = ClockNow();
  const PassResult result = AccumulateGradients(model_, forest, batch.calls, loss, options);
  tally.pass_seconds = ClockNow().wall - start.wall;
  tally.work = WorkOf(forest, result, options);
  tally.unmerged = UnmergedWork(batch.calls, forest.call_indices, static_cast<int64_t>(forest.entries.size()));
  tally.loss += result.loss;
  tally.merged_tokens += static_cast<int64_t>(forest.size());
  tally.parts += result.parts;
  for (size_t i = 0; i < forest.entries.size(); ++i) {
    const tree::LossEntry& entry = forest.entries[i];
    const tree::FlatCall& call = batch.calls[static_cast<size_t>(entry.call)];
    const size_t offset = static_cast<size_t>(entry.offset);
    tally.entropy.Add(result.entropy[i]);
    tally.offpolicy.Add(result.logprobs[i], call.logprobs[offset]);
    if (OnPolicy(call, offset, version_)) tally.packed.Add(result.logprobs[i], call.logprobs[offset]);
  }
}

Trainer::ProbeFuture Trainer::StartProbe(const ProbeSource& probe) const {
  if (options_.probe_tokens <= 0 || probe == nullptr) return {};
  return std::async(std::launch::async, probe, version_, options_.probe_tokens);
}

void Trainer::FinishProbe(ProbeFuture fresh, StepTally& tally) const {
  if (!fresh.valid()) return;
  const auto scored = [&]() -> absl::Status {
    INGOT_ASSIGN_OR_RETURN(const std::vector<tree::FlatCall> calls, fresh.get());
    for (const tree::FlatCall& call : calls) INGOT_RETURN_IF_ERROR(CheckCall(call, Limits(), true));
    for (const std::vector<int32_t>& indices : ProbeLayout(options_, calls)) {
      INGOT_ASSIGN_OR_RETURN(const tree::PackedForest forest, tree::PackForest(calls, indices));
      const PassResult result = ScoreForest(model_, forest, calls, pass_options_);
      for (size_t i = 0; i < forest.entries.size(); ++i) {
        const tree::FlatCall& call = calls[static_cast<size_t>(forest.entries[i].call)];
        const size_t offset = static_cast<size_t>(forest.entries[i].offset);
        if (OnPolicy(call, offset, version_)) tally.mismatch.Add(result.logprobs[i], call.logprobs[offset]);
      }
    }
    return absl::OkStatus();
  }();
  if (!scored.ok() || tally.mismatch.abs_diff.count < options_.probe_tokens) {
    INGOT_LOG(warn, "the probe at version {} holds {} tokens of {}: {}", version_, tally.mismatch.abs_diff.count,
              options_.probe_tokens,
              scored.ok() ? "its source gave no more of that version" : std::string(scored.message()));
  }
  if (options_.numerics == kernels::Numerics::kExact && tally.mismatch.abs_diff.max > 0) {
    INGOT_LOG(warn,
              "numerics is exact, but at version {} a probe's log-prob differs from the engine's by {}: do engine and "
              "trainer run on machines with different instruction sets?",
              version_, tally.mismatch.abs_diff.max);
  }
}

std::string Trainer::Optimize(const PreparedBatch& batch, StepLoss& loss, StepTally& tally, StepMetrics& metrics) {
  const double grad_norm = optimizer_.GradNorm();
  if (!std::isfinite(tally.loss) || !std::isfinite(grad_norm) || !loss.non_finite_calls().empty()) {
    const std::string tensors = NonFiniteTensors(model_, optimizer_.Gradients());
    std::vector<int32_t> calls = loss.non_finite_calls();
    if (calls.empty()) calls = CallsWithoutFiniteGradient(model_, batch, loss, pass_options_, /*limit=*/5);
    return absl::StrCat("loss ", tally.loss, ", gradient norm ", grad_norm, ": not finite for ",
                        NameCalls(batch, calls), tensors.empty() ? "" : "; ", tensors,
                        "; a lower learning rate, a tighter clip or a resume from an earlier checkpoint may help");
  }
  const double rate = LearningRate(options_.optimizer, version_, options_.total_steps);
  snapshot_ = nullptr;
  if (options_.optimizer_reset_every > 0 && version_ % options_.optimizer_reset_every == 0) optimizer_.Reset();
  optimizer_.Step(rate, grad_norm);
  metrics["actor/grad_norm"] = grad_norm;
  metrics["actor/learning_rate"] = rate;
  return "";
}

absl::StatusOr<StepReport> Trainer::Skip(PreparedBatch batch, const std::string& why) {
  if (skipped_in_a_row_ >= options_.max_skipped_steps) {
    return absl::InternalError(absl::StrCat("step ", version_, " cannot be made, after ", skipped_in_a_row_,
                                            " skipped in a row (max_skipped_steps ", options_.max_skipped_steps,
                                            "); nothing was changed: ", why));
  }
  ++skipped_in_a_row_;
  INGOT_LOG(warn, "step {} is skipped ({} of at most {} in a row): {}", version_, skipped_in_a_row_,
            options_.max_skipped_steps, why);
  snapshot_ = nullptr;  // the same weights under a new number
  ++version_;
  batch.metrics["trainer/skipped"] = 1;
  std::erase_if(batch.metrics, [](const auto& metric) { return !std::isfinite(metric.second); });
  return StepReport{version_ - 1, version_, std::move(batch.metrics), std::move(batch.staleness_histogram)};
}

absl::StatusOr<StepReport> Trainer::TrainStep(const TrainBatch& batch, const ProbeSource& probe) {
  UseThreads(options_.threads);
  const auto start = clock_.Now();
  if (batch.step != version_) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch ", batch.step, " cannot be trained at version ", version_, ": batches come in order"));
  }
  INGOT_ASSIGN_OR_RETURN(PreparedBatch prepared, PrepareBatch(batch, options_, Limits(), version_));
  if (prepared.loss_tokens == 0) {
    const std::string why = prepared.empty_reason;
    return Skip(std::move(prepared), why);
  }
  INGOT_ASSIGN_OR_RETURN(const tree::PackedForest forest, PackBatch(prepared));
  const auto packed = clock_.Now();

  StepTally tally;
  StepMetrics& metrics = prepared.metrics;
  INGOT_RETURN_IF_ERROR(CheckStepMemory(forest, metrics));
  StepLoss loss(*objective_, {options_.kl_coefficient, options_.reference_kl_coefficient, options_.entropy_coefficient},
                prepared);
  std::string fault;
  const absl::Status status = AtTorchEdge(absl::StrCat("step ", batch.step), [&]() -> absl::Status {
    optimizer_.ZeroGrad();
    ProbeFuture fresh = StartProbe(probe);
    AccumulateBatch(prepared, forest, loss, tally);
    const auto accumulated = clock_.Now();
    FinishProbe(std::move(fresh), tally);
    metrics["perf/probe_seconds"] = Seconds(clock_.Now() - accumulated);
    ReportBound(prepared, tally, metrics);
    fault = Optimize(prepared, loss, tally, metrics);
    return absl::OkStatus();
  });
  optimizer_.ZeroGrad();
  INGOT_RETURN_IF_ERROR(status);
  // Without a probe the batch's own tokens stand in for it.
  if (probe == nullptr) tally.mismatch = tally.packed;
  if (fault.empty()) {
    for (const auto& [name, value] : loss.sums().means) metrics[name] = value.mean();
    for (const auto& [name, value] : loss.sums().maxima) metrics[name] = value.max;
  }
  Report(prepared, tally, metrics);
  metrics["perf/data_seconds"] = Seconds(packed - start);
  metrics["perf/train_seconds"] = Seconds(clock_.Now() - packed);
  if (!fault.empty()) return Skip(std::move(prepared), fault);
  skipped_in_a_row_ = 0;
  ++version_;
  return StepReport{batch.step, version_, std::move(prepared.metrics), std::move(prepared.staleness_histogram)};
}

void Trainer::ReportBound(const PreparedBatch& batch, const StepTally& tally, StepMetrics& metrics) {
  if (!rates_) {  // a fraction of a second, once: few rows suffice for a rate
    const at::Tensor& any = parameters().tensors().begin()->second;
    size_t longest = 1;
    for (const tree::FlatCall& call : batch.calls) longest = std::max(longest, call.tokens.size());
    const auto rows = std::min<int64_t>(tally.work.rows, 1024);
    rates_ = StepRates::Measure(config(), any.scalar_type(), any.device(), rows, std::min<int64_t>(rows, 256),
                                std::min<int64_t>(static_cast<int64_t>(longest), 2048));
  }
  const double bound = BoundSeconds(config(), tally.work, *rates_).wall;
  const double unmerged = BoundSeconds(config(), tally.unmerged, *rates_).wall;
  metrics["perf/pass_seconds"] = tally.pass_seconds;
  metrics["perf/bound_seconds"] = bound;
  metrics["perf/of_bound"] = bound / tally.pass_seconds;
  metrics["tree/speedup_bound"] = unmerged / bound;
  metrics["tree/speedup"] = unmerged / tally.pass_seconds;
}

void Trainer::Report(const PreparedBatch& batch, const StepTally& tally, StepMetrics& metrics) const {
  metrics["trainer/skipped"] = 0;
  metrics["actor/loss"] = tally.loss;
  metrics["actor/entropy"] = tally.entropy.mean();
  tally.offpolicy.Report("offpolicy", metrics);
  tally.mismatch.Report("mismatch", metrics);
  metrics["mismatch/packed_logprob_abs_diff_max"] = tally.packed.abs_diff.max;
  metrics["mismatch/packed_tokens"] = static_cast<double>(tally.packed.abs_diff.count);
  metrics["mismatch/probe_tokens"] = static_cast<double>(tally.mismatch.abs_diff.count);
  metrics["tree/token_ratio"] = static_cast<double>(batch.unmerged_tokens) / static_cast<double>(tally.merged_tokens);
  metrics["tree/merged_tokens"] = static_cast<double>(tally.merged_tokens);
  metrics["tree/parts"] = static_cast<double>(tally.parts);
  metrics["tree/unmerged_tokens"] = static_cast<double>(batch.unmerged_tokens);
}

absl::StatusOr<std::shared_ptr<const weights::Snapshot>> Trainer::TakeSnapshot() {
  if (snapshot_ != nullptr) return snapshot_;
  return AtTorchEdge("snapshot", [&]() -> absl::StatusOr<std::shared_ptr<const weights::Snapshot>> {
    const at::NoGradGuard no_history;
    std::vector<at::Tensor> kept;  // what the views point into
    std::vector<weights::TensorView> views;
    for (const auto& [name, tensor] : parameters().tensors()) {
      kept.push_back(tensor.detach().to(at::kCPU).contiguous());
      const at::Tensor& host = kept.back();
      views.push_back({name, DtypeName(host.scalar_type()), host.sizes().vec(),
                       std::span(static_cast<const std::byte*>(host.const_data_ptr()), host.nbytes())});
    }
    INGOT_ASSIGN_OR_RETURN(snapshot_, weights::Snapshot::Copy(version_, views));
    return snapshot_;
  });
}

absl::StatusOr<CheckpointInfo> Trainer::SaveCheckpoint(const std::string& root,
                                                       const std::map<std::string, std::string>& extra_files) {
  INGOT_ASSIGN_OR_RETURN(const auto snapshot, TakeSnapshot());
  CheckpointContents contents;
  contents.step = version_;
  contents.seed = options_.seed;
  contents.weights_checksum = snapshot->checksum();
  contents.total_steps = options_.total_steps;
  contents.schedule = options_.optimizer;
  contents.config = config();
  contents.optimizer = optimizer_.State();
  contents.optimizer_steps = optimizer_.steps();
  for (const auto& [name, tensor] : parameters().tensors()) {
    contents.parameters.tensors()[name] = tensor.detach().to(at::kCPU);
  }
  for (auto& [name, tensor] : contents.optimizer) tensor = tensor.to(at::kCPU);
  return WriteCheckpoint(root, contents, extra_files, options_.keep_checkpoints);
}

}  // namespace ingot::trainer
