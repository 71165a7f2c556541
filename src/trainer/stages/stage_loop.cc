#include "trainer/stages/stage_loop.h"

#include <map>
#include <utility>

#include "trainer/schedule.h"

namespace ingot::trainer {
namespace {

std::vector<std::vector<size_t>> UnitsOf(const std::vector<tree::CallPath>& calls, int32_t episodes) {
  std::map<int32_t, std::vector<size_t>> by_unit;
  for (size_t i = 0; i < calls.size(); ++i) by_unit[calls[i].episode / episodes].push_back(i);
  std::vector<std::vector<size_t>> units;
  for (auto& [unit, indices] : by_unit) units.push_back(std::move(indices));
  return units;
}

}  // namespace

StageLoop::StageLoop(StageRun& stage, const std::vector<tree::CallPath>& calls, const SftObserver& observer,
                     uint64_t seed)
    : stage_(stage),
      calls_(calls),
      observer_(observer),
      seed_(seed),
      units_(UnitsOf(calls, stage.episodes())),
      steps_(SftSteps(stage.options(), std::ssize(units_))) {}

absl::Status StageLoop::Run(const std::string& checkpoints) {
  if (steps_ == 0) return absl::OkStatus();
  StageCheckpoints kept;
  if (!checkpoints.empty()) {
    INGOT_ASSIGN_OR_RETURN(const uint64_t start, stage_.StartChecksum());
    kept = StageCheckpoints(checkpoints, start, calls_);
  }
  INGOT_ASSIGN_OR_RETURN(const CheckpointInfo newest, kept.Newest());
  absl::Status status = stage_.Begin(newest.path);
  if (status.ok()) status = RunSteps(kept, newest.step);
  if (stage_.broken()) return status;
  const absl::Status ended = stage_.End();
  return status.ok() ? ended : status;
}

absl::Status StageLoop::RunSteps(const StageCheckpoints& kept, int64_t taken) {
  const SftOptions& options = stage_.options();
  const int64_t every = options.checkpoint_every;
  stage_.skipped().NoteSound(taken - 1);
  for (int64_t step = taken; step < steps_; ++step) {
    SftReport report{step, steps_, {}};
    INGOT_ASSIGN_OR_RETURN(report.metrics, RunStep(step, LearningRate(options.optimizer, step, steps_)));
    if (step + 1 == steps_ && stage_.skipped().not_finite() > 0) INGOT_RETURN_IF_ERROR(CheckSound());
    const absl::Status reported = observer_ ? observer_(report) : absl::OkStatus();
    const bool due = step + 1 == steps_ || (every > 0 && (step + 1) % every == 0);
    absl::Status saved;
    if (kept.kept() && (due || !reported.ok())) saved = stage_.Save(kept.root(), step + 1, kept.files()).status();
    INGOT_RETURN_IF_ERROR(reported);
    INGOT_RETURN_IF_ERROR(saved);
  }
  return absl::OkStatus();
}

absl::StatusOr<StepMetrics> StageLoop::RunStep(int64_t step, double learning_rate) {
  return stage_.Step(Choose(SftBatch(stage_.options(), std::ssize(units_), seed_, step)), step, learning_rate);
}

std::vector<tree::CallPath> StageLoop::Choose(const std::vector<int64_t>& chosen) const {
  const int32_t episodes = stage_.episodes();
  std::vector<tree::CallPath> picked;
  for (size_t i = 0; i < chosen.size(); ++i) {
    for (const size_t call : units_[static_cast<size_t>(chosen[i])]) {
      picked.push_back(calls_[call]);
      picked.back().episode = static_cast<int32_t>(i) * episodes + picked.back().episode % episodes;
    }
  }
  return picked;
}

absl::Status StageLoop::CheckSound() {
  SkippedSteps& skipped = stage_.skipped();
  const int64_t faulty = skipped.not_finite(), sound = skipped.sound();
  if (sound >= 0) {
    // A step at learning rate 0 changes only the optimizer's state, which ends with the stage.
    skipped.Restart();
    INGOT_RETURN_IF_ERROR(RunStep(sound, 0).status());
    if (skipped.not_finite() == 0) return absl::OkStatus();
  }
  return absl::InternalError(
      absl::StrCat("stage ", stage_.name(), " ends after ", faulty, " skipped steps, and ",
                   sound < 0 ? "no step before them succeeded"
                             : absl::StrCat("step ", sound, ", the last successful step, now also fails"),
                   ": its weights are discarded. The log names the tensors and conversations at fault; lower ",
                   stage_.name(), ".learning_rate or remove those conversations, and restart the stage"));
}

}  // namespace ingot::trainer
