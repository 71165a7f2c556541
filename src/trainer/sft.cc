#include "trainer/sft.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/rng.h"
#include "trainer/adamw.h"
#include "trainer/batch.h"
#include "trainer/forest_pass.h"
#include "trainer/gradient_faults.h"
#include "trainer/schedule.h"
#include "trainer/stage_checkpoints.h"

namespace ingot::trainer {
namespace {

// "sft", so that the stage's shuffles share no draws with other users of the run's seed.
constexpr uint64_t kShuffleStream = 0x736674;

std::vector<int64_t> Shuffled(int64_t count, uint64_t seed) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (int64_t i = count - 1; i > 0; --i) {
    const double draw = base::UniformAt(seed, static_cast<uint64_t>(i));
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(draw * static_cast<double>(i + 1))]);
  }
  return order;
}

int64_t StepsPerEpoch(const SftOptions& options, int64_t conversations) {
  return (conversations + options.batch_size - 1) / options.batch_size;
}

double Seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

struct Stage {
  std::string name;  // prefix of its metrics and of its configuration keys
  const SftOptions& options;
  const Objective& objective;
  const model::Transformer* reference;  // where the objective needs one
  int32_t episodes;                     // per conversation or pair
};

// One optimizer step; its metrics.
absl::StatusOr<StepMetrics> StageStep(const model::Transformer& model, const TrainerOptions& options,
                                      const Stage& stage, const PreparedBatch& batch, double learning_rate,
                                      AdamW& optimizer) {
  optimizer.ZeroGrad();
  PassOptions pass = PassOptionsOf(options);
  pass.part_done = [&] { optimizer.CollectGradients(); };
  StepLoss step_loss(stage.objective, {}, batch);
  INGOT_ASSIGN_OR_RETURN(const tree::PackedForest forest, PackBatch(batch));
  ScoreForests(model, stage.reference, std::span(&forest, 1), batch.calls, step_loss, pass);
  if (step_loss.needs_scores()) step_loss.Fix();
  const double loss = AccumulateGradients(model, forest, batch.calls, step_loss, pass).loss;
  const double grad_norm = optimizer.GradNorm();
  if (!std::isfinite(loss) || !std::isfinite(grad_norm)) {
    const std::string tensors = NonFiniteTensors(model, optimizer.Gradients());
    optimizer.ZeroGrad();
    return absl::InternalError(absl::StrCat("loss ", loss, " or gradient norm ", grad_norm,
                                            " of supervised training is not finite for ",
                                            NameCalls(batch, step_loss.non_finite_calls()), tensors.empty() ? "" : "; ",
                                            tensors, ": lower ", stage.name, ".learning_rate"));
  }
  optimizer.Step(learning_rate, grad_norm);
  optimizer.ZeroGrad();
  StepMetrics metrics{{stage.name + "/loss", loss},
                      {stage.name + "/grad_norm", grad_norm},
                      {stage.name + "/learning_rate", learning_rate}};
  for (const auto& [name, value] : step_loss.sums().means) metrics[name] = value.mean();
  metrics["tree/token_ratio"] = static_cast<double>(batch.unmerged_tokens) / static_cast<double>(forest.size());
  return metrics;
}

// The calls of one step, their episodes counted from 0 within it.
std::vector<tree::CallPath> Choose(const std::vector<tree::CallPath>& calls, const Stage& stage,
                                   const std::vector<const std::vector<size_t>*>& units,
                                   const std::vector<int64_t>& chosen) {
  std::vector<tree::CallPath> picked;
  for (size_t i = 0; i < chosen.size(); ++i) {
    for (const size_t call : *units[static_cast<size_t>(chosen[i])]) {
      picked.push_back(calls[call]);
      picked.back().episode = static_cast<int32_t>(i) * stage.episodes + picked.back().episode % stage.episodes;
    }
  }
  return picked;
}

absl::Status RunStage(const model::Transformer& model, const TrainerOptions& options, const Stage& stage,
                      const std::vector<tree::CallPath>& calls, const base::Clock& clock, const SftObserver& observer,
                      const std::string& checkpoints) {
  const TokenLimits limits{model.config().vocab_size, model.config().max_position_embeddings};
  std::map<int32_t, std::vector<size_t>> by_unit;
  for (size_t i = 0; i < calls.size(); ++i) {
    // Found now, not in the middle of the stage.
    INGOT_RETURN_IF_ERROR(CheckCall(calls[i], limits, /*recorded=*/false));
    by_unit[calls[i].episode / stage.episodes].push_back(i);
  }
  std::vector<const std::vector<size_t>*> units;
  for (const auto& [unit, indices] : by_unit) units.push_back(&indices);
  const int64_t count = static_cast<int64_t>(units.size());
  const int64_t total = SftSteps(stage.options, count);
  if (total == 0) return absl::OkStatus();

  AdamW optimizer(stage.options.optimizer, model.parameters().tensors());
  INGOT_ASSIGN_OR_RETURN(const StageCheckpoints kept,
                         StageCheckpoints::Open(checkpoints, options, model, optimizer, calls));
  INGOT_ASSIGN_OR_RETURN(const int64_t taken, kept.Restore());
  const int64_t every = stage.options.checkpoint_every;
  for (int64_t step = taken; step < total; ++step) {
    const auto start = clock.Now();
    std::vector<tree::CallPath> chosen =
        Choose(calls, stage, units, SftBatch(stage.options, count, options.seed, step));
    auto batch = stage.episodes == 2 ? PreparePairs(std::move(chosen), limits) : PrepareSft(std::move(chosen), limits);
    if (!batch.ok()) return batch.status();
    SftReport report{step, total, {}};
    const double rate = LearningRate(stage.options.optimizer, step, total);
    INGOT_ASSIGN_OR_RETURN(report.metrics, StageStep(model, options, stage, *batch, rate, optimizer));
    const double seconds = Seconds(clock.Now() - start);
    report.metrics[stage.name + "/tokens_per_second"] =
        seconds > 0 ? static_cast<double>(batch->unmerged_tokens) / seconds : 0;
    const absl::Status told = observer ? observer(report) : absl::OkStatus();
    const bool due = step + 1 == total || (every > 0 && (step + 1) % every == 0);
    const absl::Status saved = due || !told.ok() ? kept.Save(step + 1) : absl::OkStatus();
    INGOT_RETURN_IF_ERROR(told);
    INGOT_RETURN_IF_ERROR(saved);
  }
  return absl::OkStatus();
}

}  // namespace

int64_t SftSteps(const SftOptions& options, int64_t conversations) {
  if (conversations == 0) return 0;
  if (options.epochs == 0) return options.max_steps;
  const int64_t steps = options.epochs * StepsPerEpoch(options, conversations);
  return options.max_steps > 0 ? std::min(steps, options.max_steps) : steps;
}

std::vector<int64_t> SftBatch(const SftOptions& options, int64_t conversations, uint64_t seed, int64_t step) {
  const int64_t per_epoch = StepsPerEpoch(options, conversations);
  const uint64_t stream =
      base::DeriveSeed(base::DeriveSeed(seed, kShuffleStream), static_cast<uint64_t>(step / per_epoch));
  const std::vector<int64_t> order = Shuffled(conversations, stream);
  const int64_t begin = step % per_epoch * options.batch_size;
  const int64_t end = std::min(conversations, begin + options.batch_size);
  return {order.begin() + begin, order.begin() + end};
}

absl::Status RunSftStage(const model::Transformer& model, const TrainerOptions& options,
                         const std::vector<tree::CallPath>& calls, const base::Clock& clock,
                         const SftObserver& observer, const std::string& checkpoints) {
  const std::unique_ptr<Objective> objective = MakeSft();
  return RunStage(model, options, {"sft", options.sft, *objective, nullptr, 1}, calls, clock, observer, checkpoints);
}

absl::Status RunDpoStage(const model::Transformer& model, const model::Transformer& reference,
                         const TrainerOptions& options, const std::vector<tree::CallPath>& calls,
                         const base::Clock& clock, const SftObserver& observer, const std::string& checkpoints) {
  const std::unique_ptr<Objective> objective = MakeDpo(options.dpo_beta);
  return RunStage(model, options, {"dpo", options.dpo, *objective, &reference, 2}, calls, clock, observer, checkpoints);
}

}  // namespace ingot::trainer
