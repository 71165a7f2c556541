#include "app/training/training.h"

#include <chrono>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "app/checks/run_warnings.h"
#include "app/checks/summary.h"
#include "app/run/compute_members.h"
#include "app/run/persist.h"
#include "app/terminal/seconds.h"
#include "app/terminal/terminal.h"
#include "app/terminal/work_lines.h"
#include "app/training/best_model.h"
#include "app/training/evaluation.h"
#include "app/training/pinned_versions.h"
#include "app/training/pool_batch_source.h"
#include "app/training/probe.h"
#include "app/training/run_record.h"
#include "app/training/run_recorder.h"
#include "app/training/run_versions.h"
#include "app/training/trainer_start.h"
#include "base/rng.h"
#include "base/run_log.h"
#include "trainer/loop.h"
#include "trainer/trainer.h"

namespace ingot::app {
namespace {

// Only for an engine that never answers, because an engine that is gone returns an error. The timeout is long because
// the probe is sampled during the step, and the engine may have long prompts queued ahead of it.
constexpr std::chrono::milliseconds kProbeTimeout{300'000};

// Reports evaluations that ended before this process started, or continues them.
absl::Status ResumeEvaluations(Evaluations& evaluations, int64_t first_step, const RecordedRows& earlier,
                               const PinnedVersions& pinned, const BestModel& best, RunRecorder& recorder,
                               const RetryPolicy& retry) {
  evaluations.RetainAfterwards([&pinned](int64_t version) { return pinned.Pins(version); });
  std::set<int64_t> evaluated;
  for (const auto& [version, mean] : earlier.evaluated) evaluated.insert(version);
  INGOT_RETURN_IF_ERROR(evaluations.Resume(first_step, evaluated, retry));
  best.DropOthers(evaluations.running());
  return evaluations.Poll(recorder.OnEvaluation());
}

// Makes the ranks store the trainer's version. REQUIRES: all arguments outlive the result.
auto StoringVersions(trainer::Trainer& trainer, weights::VersionWriter& writer, const RetryPolicy& retry) {
  return [&trainer, &writer, &retry]() -> absl::StatusOr<std::shared_ptr<const weights::Snapshot>> {
    std::shared_ptr<const weights::Snapshot> version;
    INGOT_RETURN_IF_ERROR(Persist(retry, "storing the version", [&]() -> absl::Status {
      INGOT_ASSIGN_OR_RETURN(version, trainer.StoreVersion(writer.newest(), writer.AnchorDue()));
      return absl::OkStatus();
    }));
    return version;
  };
}

// Returns a line about the model that eval.keep_best has kept; empty = none.
std::string DescribeBest(const BestModel& best) {
  if (!best.on()) return "";
  const absl::StatusOr<std::optional<VersionScore>> kept = best.Best();
  if (!kept.ok() || !kept->has_value()) return "";
  return fmt::format("the best held-out reward is {:.3f}, of version {}, whose model is {}", (*kept)->reward,
                     (*kept)->version, best.folder());
}

// The record has the evaluations from this process and earlier ones.
GoalVerdict VerdictOf(const RunConfig& config, const RunDir& dir, const RunTally& tally, int64_t version) {
  const std::map<int64_t, double> evaluated = ReadRecord(dir.metrics()).evaluated;
  const auto newest = evaluated.find(version);
  return JudgeGoal(config.goal, tally.rewards,
                   newest == evaluated.end() ? std::nullopt : std::optional<double>(newest->second), tally.reward.name);
}

}  // namespace

absl::Status FollowTraining(const RunConfig& config, const RunDir& dir, const std::string& device,
                            trainer::Ranks& ranks, std::optional<weights::VersionStore> store) {
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<trainer::Trainer> trainer,
                         StartAsRankZeroDid(config, dir, device, ranks));
  if (store.has_value()) trainer->StoreVersionsIn(*std::move(store));
  trainer->BorrowThreads(ComputeMemberOfRole(config, device, dir.path(), "trainer", ranks.rank()));
  return trainer->Follow();
}

absl::StatusOr<bool> RunTraining(const RunConfig& config, const RunDir& dir, const ModelSetup& model,
                                 const TrainerParts& parts, bool resume, base::Metrics& metrics,
                                 const std::atomic<bool>& stop) {
  const base::Clock& clock = base::Clock::Real();
  const std::chrono::nanoseconds start = clock.Now();
  const Figures figures = FiguresOf(config.rewards);
  StepLine line(stdout, config.name, config.trainer.total_steps, clock, figures);
  WorkLines work(line);
  work.Start();
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<trainer::Trainer> trainer,
                         StartOrResume(config, dir, model, parts.ranks, resume, line, stop));
  INGOT_RETURN_IF_ERROR(dir.DropReplaced());
  const int64_t first_step = trainer->version();
  if (parts.store.has_value()) trainer->StoreVersionsIn(*parts.store);
  trainer->BorrowThreads(parts.compute);

  const RetryPolicy retry{.stop = &stop};
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<base::RunLog> log,
                         OpenRecord(config, dir, resume, first_step, metrics, retry));
  const RecordedRows earlier = ReadRecord(dir.metrics(), figures);
  RunTally tally;
  tally.reward = figures.front();
  tally.rewards = earlier.rewards;
  tally.curves = earlier.curves;
  INGOT_ASSIGN_OR_RETURN(Evaluations evaluations,
                         Evaluations::Create(config.eval, config.trainer.total_steps, MaxEvaluations(config),
                                             *parts.clients.scheduler, parts.publisher));
  const PinnedVersions pinned(config.gateway, dir);
  INGOT_RETURN_IF_ERROR(pinned.Restore(first_step, parts.publisher));
  const BestModel best(config.eval.keep_best, dir.checkpoints(), model.text.files);
  RunVersions versions(parts, evaluations, pinned, best, trainer->config(), retry);
  if (first_step == 0) INGOT_RETURN_IF_ERROR(SaveStart(*trainer, model, dir, versions, retry));
  PoolBatchSource source(parts.clients, retry, line);
  const double max_mismatch = config.has_external_engine() ? config.external.max_mismatch : 0;
  RunRecorder recorder(parts, *log, line, tally, evaluations, best, retry, config.eval.success, max_mismatch, start);
  INGOT_RETURN_IF_ERROR(ResumeEvaluations(evaluations, first_step, earlier, pinned, best, recorder, retry));

  trainer::LoopOptions options = LoopOptionsOf(model, dir, retry);
  if (parts.writer != nullptr) options.take = StoringVersions(*trainer, *parts.writer, retry);
  std::optional<SharedDevice> device;
  if (config.cluster.placement == Placement::kShared) {
    device.emplace(parts.parked, base::FromSeconds(config.cluster.park_timeout_s));
    options.take_device = [&device] { return device->Take(); };
    options.give_device = [&device, &trainer] {
      trainer->ReleaseUnusedMemory();
      device->Give();
    };
  }
  options.retain = [&](int64_t version) { return evaluations.Retains(version) || pinned.Pins(version); };
  const trainer::ProbeSource probe = [&](int64_t version, int64_t tokens) {
    return SampleProbe(*parts.clients.EngineOfTurn(version).second, version, tokens, source.contexts(),
                       source.temperature(), base::DeriveSeed(config.seed, static_cast<uint64_t>(version)),
                       kProbeTimeout);
  };
  trainer::TrainLoop loop(options, *trainer, source, versions, &recorder, probe);
  const absl::Status ran = loop.Run(), dismissed = trainer->Dismiss();
  INGOT_RETURN_IF_ERROR(ran);
  INGOT_RETURN_IF_ERROR(dismissed);
  INGOT_RETURN_IF_ERROR(evaluations.Finish(recorder.OnEvaluation(), retry, parts.clients.engine_fault,
                                           [&line](const std::string& text) { line.Note(text); }));
  best.DropOthers({});

  for (const auto text : absl::StrSplit(FormatSummary(tally, SecondsSince(clock, start), first_step), '\n')) {
    line.Note(std::string(text));
  }
  for (const std::string& warning : EndWarnings(config, tally)) line.Note("warning: " + warning);
  if (const std::string text = DescribeBest(best); !text.empty()) line.Note(text);
  const GoalVerdict verdict = VerdictOf(config, dir, tally, trainer->version());
  if (!verdict.text.empty()) line.Note(verdict.text);
  return verdict.met;
}

}  // namespace ingot::app
