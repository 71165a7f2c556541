#include "app/training/trainer_start.h"

#include <utility>

#include "app/terminal/progress.h"
#include "app/training/supervised.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/written_files.h"
#include "model/parameters.h"
#include "trainer/checkpoints/checkpoint.h"

namespace ingot::app {
namespace {

// Returns whether the run's folder must store the reference policy. It consists of the run's initial weights, which
// later checkpoints do not have.
bool KeepsReference(const RunConfig& config) {
  return config.trainer.needs_reference() && config.trainer.reference_path.empty();
}
std::string ReferencePath(const RunDir& dir) { return dir.path() + "/reference"; }

// Runs the supervised stages before reinforcement learning. Their record is in RUN/warm_start, so that the run's own
// record has only RL steps.
absl::Status WarmStart(const RunConfig& config, const RunDir& dir, const ModelSetup& model, trainer::Trainer& trainer,
                       bool again, StepLine& line, const std::atomic<bool>& stop) {
  StageRecord record;
  record.note = [&line](const std::string& text) { line.Note("warm start: " + text); };
  record.progress = [&line](const std::string& text) { line.Progress("warm start: " + text); };
  record.folder = dir.path() + "/warm_start";
  record.checkpoints = dir.stages();
  record.again = again;
  record.on_start = [&dir] { return dir.DropReplaced(); };
  return base::Annotate(RunStages(config, model, trainer, record, stop), "warm start");
}

absl::StatusOr<std::unique_ptr<trainer::Trainer>> FromCheckpoint(const RunConfig& config, const RunDir& dir,
                                                                 const std::string& checkpoint,
                                                                 const std::string& device, trainer::Ranks* ranks) {
  trainer::TrainerOptions options = config.trainer;
  if (KeepsReference(config)) options.reference_path = ReferencePath(dir);
  const Underway loading("loading " + checkpoint);
  return trainer::Trainer::Resume(options, checkpoint, at::Device(device), base::Clock::Real(), ranks);
}

// Checks that a resumed run's checkpoint has the configured model.
absl::Status CheckSameModel(const model::ModelConfig& configured, const trainer::Trainer& trainer, const RunDir& dir) {
  absl::Status same = model::Parameters::CheckSameShapes(configured, trainer.config());
  if (same.ok()) return same;
  return absl::FailedPreconditionError(
      absl::StrCat("the checkpoint in ", dir.checkpoints(),
                   " has a different model than the configuration: ", std::string(same.message()),
                   "; restore model as it was when the run started, or start a new run with another run.name"));
}

absl::StatusOr<std::unique_ptr<trainer::Trainer>> NewOrResumed(const RunConfig& config, const RunDir& dir,
                                                               const ModelSetup& model, trainer::Ranks* ranks,
                                                               bool resume, StepLine& line,
                                                               const std::atomic<bool>& stop) {
  if (resume) {
    const absl::StatusOr<trainer::CheckpointInfo> latest = trainer::LatestCheckpoint(dir.checkpoints());
    if (latest.ok()) {
      for (const std::string& why : latest->rejected) INGOT_LOG(warn, "checkpoint skipped: {}", why);
      line.Note(fmt::format("resuming from {}", latest->path));
      INGOT_RETURN_IF_ERROR(BroadcastStart(ranks, latest->path));
      return FromCheckpoint(config, dir, latest->path, model.device, ranks);
    }
    if (latest.status().code() != absl::StatusCode::kNotFound) return latest.status();
    line.Note("no checkpoint: starting from the beginning");
  }
  INGOT_RETURN_IF_ERROR(BroadcastStart(ranks, ""));
  INGOT_ASSIGN_OR_RETURN(std::unique_ptr<trainer::Trainer> trainer, NewTrainer(config, model, ranks));
  if (!config.sft_data.empty() || !config.dpo_data.empty()) {
    INGOT_RETURN_IF_ERROR(WarmStart(config, dir, model, *trainer, resume, line, stop));
  }
  if (KeepsReference(config)) {
    absl::Status kept = model::SaveModelDir(ReferencePath(dir), trainer->config(), trainer->parameters());
    if (kept.ok()) kept = base::WriteChecksums(ReferencePath(dir));
    INGOT_RETURN_IF_ERROR(base::Annotate(kept, "keeping the reference policy"));
  }
  return trainer;
}

}  // namespace

absl::StatusOr<std::unique_ptr<trainer::Trainer>> StartOrResume(const RunConfig& config, const RunDir& dir,
                                                                const ModelSetup& model, trainer::Ranks* ranks,
                                                                bool resume, StepLine& line,
                                                                const std::atomic<bool>& stop) {
  INGOT_ASSIGN_OR_RETURN(std::unique_ptr<trainer::Trainer> trainer,
                         NewOrResumed(config, dir, model, ranks, resume, line, stop));
  INGOT_RETURN_IF_ERROR(CheckSameModel(model.shape, *trainer, dir));
  return trainer;
}

absl::Status SaveStart(trainer::Trainer& trainer, const ModelSetup& model, const RunDir& dir,
                       trainer::VersionSink& versions, const RetryPolicy& retry) {
  trainer::CheckpointInfo checkpoint;
  const Underway writing("writing checkpoint 0");
  INGOT_RETURN_IF_ERROR(Persist(retry, "writing checkpoint 0", [&]() -> absl::Status {
    INGOT_ASSIGN_OR_RETURN(checkpoint, trainer.SaveCheckpoint(dir.checkpoints(), model.text.files));
    return absl::OkStatus();
  }));
  INGOT_RETURN_IF_ERROR(versions.OnCheckpoint(checkpoint));
  return dir.DropStages();
}

trainer::LoopOptions LoopOptionsOf(const ModelSetup& model, const RunDir& dir, const RetryPolicy& retry) {
  trainer::LoopOptions options;
  options.checkpoint_root = dir.checkpoints();
  options.extra_files = model.text.files;
  options.persist = [&retry](const std::string& what, const std::function<absl::Status()>& write) {
    const Underway writing(what);
    return Persist(retry, what, write);
  };
  return options;
}

absl::StatusOr<std::unique_ptr<trainer::Trainer>> StartAsRankZeroDid(const RunConfig& config, const RunDir& dir,
                                                                     const std::string& device, trainer::Ranks& ranks) {
  INGOT_ASSIGN_OR_RETURN(const ModelSetup model, SetUpModel(config.model, device));
  INGOT_ASSIGN_OR_RETURN(const std::string checkpoint, ranks.BroadcastBytes("", 0));
  if (checkpoint.empty()) return NewTrainer(config, model, &ranks);
  return FromCheckpoint(config, dir, checkpoint, device, &ranks);
}

}  // namespace ingot::app
