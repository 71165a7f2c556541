#include "app/training.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

#include "absl/strings/str_split.h"
#include "app/doubts.h"
#include "app/evaluation.h"
#include "app/model_setup.h"
#include "app/persist.h"
#include "app/pinned_versions.h"
#include "app/probe.h"
#include "app/progress.h"
#include "app/summary.h"
#include "app/supervised.h"
#include "app/terminal.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/run_log.h"
#include "trainer/loop.h"
#include "trainer/trainer.h"

namespace ingot::app {
namespace {

using std::chrono::milliseconds;

// For an engine that does not answer at all; one that is gone answers with an error. It is long because the probe is
// sampled during the step, on an engine that may have long prompts before it.
constexpr milliseconds kProbeTimeout{300'000};
constexpr int kProbeContexts = 16;
constexpr std::chrono::seconds kTellOfWait{10};

double SecondsSince(const base::Clock& clock, std::chrono::nanoseconds start) {
  return std::chrono::duration<double>(clock.Now() - start).count();
}

// The scheduler's batches with the pool's trees. Remembers some contexts of the last batch for the probe.
class PoolBatchSource final : public trainer::BatchSource {
 public:
  PoolBatchSource(const TrainingSeams& seams, const Patience& patience, StepLine& line)
      : seams_(seams), patience_(patience), line_(line) {
    // Counts from here: a resumed run's first batch does not wait for groups that ended before.
    if (const auto status = seams.scheduler->Status(); status.ok()) feed_ = status->stats();
  }

  absl::StatusOr<trainer::TrainBatch> Next(int64_t step) override {
    const base::Clock& clock = *patience_.clock;
    const auto start = clock.Now();
    auto told = start;
    const auto waiting = [&] {
      if (clock.Now() - told < kTellOfWait) return;
      told = clock.Now();
      const absl::StatusOr<v1::SchedulerStatusResponse> status = seams_.scheduler->Status();
      if (status.ok()) line_.Note(DescribeWait(step, SecondsSince(clock, start), feed_, status->stats()));
    };
    INGOT_ASSIGN_OR_RETURN(const v1::NextBatchResponse response,
                           WaitForBatch(*seams_.scheduler, step, patience_, waiting));
    trainer::TrainBatch batch;
    batch.step = step;
    batch.feed = feed_ = response.stats();
    for (const int64_t id : response.batch().group_ids()) {
      v1::GetGroupRequest request;
      request.set_group_id(id);
      request.set_purpose(v1::PURPOSE_TRAIN);
      INGOT_RETURN_IF_ERROR(
          Persist(patience_, absl::StrCat("reading group ", id, " of batch ", step), [&]() -> absl::Status {
            INGOT_ASSIGN_OR_RETURN(v1::Group group, seams_.pool->GetGroup(request));
            batch.groups.push_back(std::move(group));
            return absl::OkStatus();
          }));
    }
    CollectContexts(batch.groups);
    return batch;
  }

  const std::vector<std::vector<int32_t>>& contexts() const { return contexts_; }
  float temperature() const { return temperature_; }

 private:
  void CollectContexts(const std::vector<v1::Group>& groups) {
    contexts_.clear();
    for (const v1::Group& group : groups) {
      for (const v1::EpisodeTree& tree : group.episodes()) {
        if (tree.calls().empty()) continue;
        const absl::StatusOr<tree::CallPath> last = tree::CallPathOf(tree, tree.calls_size() - 1);
        if (!last.ok()) continue;  // the trainer reports its fault
        contexts_.push_back(last->context.Tokens());
        temperature_ = last->temperature;
        if (contexts_.size() >= kProbeContexts) return;
      }
    }
  }

  const TrainingSeams& seams_;
  const Patience& patience_;
  StepLine& line_;
  v1::FeedStats feed_;  // of the last batch, or at the start
  std::vector<std::vector<int32_t>> contexts_;
  float temperature_ = 1;
};

// Publishes versions, marks them live at the scheduler, and starts evaluations that are due.
class RunVersions final : public trainer::VersionSink {
 public:
  // All arguments must outlive it.
  RunVersions(const TrainingSeams& seams, Evaluations& evaluations, const PinnedVersions& pinned,
              const model::ModelConfig& shape, const Patience& patience)
      : seams_(seams), evaluations_(evaluations), pinned_(pinned), shape_(shape), patience_(patience) {}

  absl::StatusOr<weights::PublishStats> Publish(std::shared_ptr<const weights::Snapshot> snapshot,
                                                bool retain) override {
    const int64_t version = snapshot->version();
    const std::chrono::nanoseconds asked = patience_.clock->Now();
    INGOT_RETURN_IF_ERROR(pinned_.Save(shape_, snapshot));
    const double save_seconds = SecondsSince(*patience_.clock, asked);
    INGOT_ASSIGN_OR_RETURN(weights::PublishStats stats,
                           PublishUntilLive(*seams_.publisher, std::move(snapshot), retain, patience_));
    stats.save_ms = 1e3 * save_seconds;
    INGOT_RETURN_IF_ERROR(Persist(patience_, absl::StrCat("telling the scheduler that version ", version, " is live"),
                                  [&] { return seams_.scheduler->MarkVersionLive(version); }));
    INGOT_RETURN_IF_ERROR(evaluations_.OnLive(version, stats.retained));
    if (!began_) {
      began_ = true;
      if (seams_.on_first_version) INGOT_RETURN_IF_ERROR(seams_.on_first_version());
    }
    return stats;
  }

  absl::Status OnCheckpoint(const trainer::CheckpointInfo& checkpoint) override {
    v1::CheckpointRequest request;
    request.set_step(checkpoint.step);
    request.set_weights_checksum(checkpoint.weights_checksum);
    return Persist(patience_, absl::StrCat("telling the scheduler of checkpoint ", checkpoint.step),
                   [&] { return seams_.scheduler->MarkCheckpoint(request); });
  }

 private:
  const TrainingSeams& seams_;
  Evaluations& evaluations_;
  const PinnedVersions& pinned_;
  const model::ModelConfig& shape_;
  const Patience& patience_;
  bool began_ = false;
};

// Writes each step, and each evaluation that has ended, to the run log and the terminal, and tallies the run.
// [[layer, [the load of each expert over their mean]], ...]
base::json::array LoadsJson(const trainer::ExpertLoads& loads) {
  base::json::array layers;
  for (const auto& [layer, experts] : loads) {
    layers.push_back(base::json::array{layer, base::json::array(experts.begin(), experts.end())});
  }
  return layers;
}

class RunRecorder final : public trainer::StepObserver {
 public:
  RunRecorder(const TrainingSeams& seams, base::RunLog& log, StepLine& line, RunTally& tally, Evaluations& evaluations,
              const Patience& patience, std::chrono::nanoseconds start)
      : seams_(seams),
        log_(log),
        line_(line),
        tally_(tally),
        evaluations_(evaluations),
        patience_(patience),
        start_(start) {
    if (const auto status = seams_.engine->Status(); status.ok()) engine_at_start_ = *status;
  }

  absl::Status OnStep(const trainer::StepReport& report, const trainer::TrainBatch& batch) override {
    const std::chrono::nanoseconds begun = patience_.clock->Now();
    std::map<std::string, double> metrics = report.metrics;
    metrics["perf/record_seconds"] = record_seconds_;
    metrics.merge(AgentMetrics(batch.groups));
    newest_ = report.version;
    if (!reported_ && report.step > 0) engine_ = engine_at_start_;  // rows before hold what engines had sampled by then
    reported_ = true;
    AddEngine(metrics);
    Tally(report, metrics, batch.feed);

    base::json::object fields;
    fields["version"] = report.version;
    for (const auto& [name, value] : metrics) fields[name] = value;
    base::json::array histogram;
    for (const auto& [age, tokens] : report.staleness_histogram) histogram.push_back(base::json::array{age, tokens});
    fields["async/staleness_histogram"] = std::move(histogram);
    if (!report.expert_loads.empty()) fields["experts/load"] = LoadsJson(report.expert_loads);
    INGOT_RETURN_IF_ERROR(Write(report.step, fields));
    line_.Step(report.step, metrics, SecondsSince(*patience_.clock, start_));
    // A stopped run leaves ended evaluations to its next start, which reports them.
    const absl::Status polled = patience_.stopped() ? absl::OkStatus() : evaluations_.Poll(OnEvaluation());
    record_seconds_ = SecondsSince(*patience_.clock, begun);
    return polled;
  }

  // Writes an evaluation's row. Its step is the evaluated version, whenever the evaluation ended.
  Evaluations::Report OnEvaluation() {
    return [this](int64_t version, const v1::EvalStatusResponse& result) {
      base::json::object fields;
      fields["version"] = version;
      fields["eval/version"] = version;
      fields["eval/reward_mean"] = result.reward_mean();
      fields["eval/episodes"] = result.total();
      fields["eval/failed"] = result.failed();
      AddGrades(version, fields);
      INGOT_RETURN_IF_ERROR(Write(version, fields));
      line_.Note(fmt::format("evaluation of version {}: reward {:.3f} over {} held-out episodes", version,
                             result.reward_mean(), result.total()));
      return absl::OkStatus();
    };
  }

 private:
  // What the reward terms say of the evaluation. A term that cannot be applied leaves its metrics out.
  void AddGrades(int64_t version, base::json::object& fields) {
    if (seams_.eval_grades == nullptr) return;
    const auto metrics = seams_.eval_grades->Of(version);
    if (!metrics.ok()) {
      INGOT_LOG(warn, "evaluation of version {} has no grades: {}", version, metrics.status().ToString());
      return;
    }
    for (const auto& [name, value] : *metrics) fields[name] = value;
  }

  absl::Status Write(int64_t step, const base::json::object& fields) {
    return Persist(patience_, "writing the run's metrics", [&] { return log_.Write(step, fields); });
  }

  void AddEngine(std::map<std::string, double>& metrics) {
    const absl::StatusOr<v1::EngineStatusResponse> status = seams_.engine->Status();
    if (!status.ok()) {
      INGOT_LOG(warn, "the engine's status is not known: {}", status.status().ToString());
      return;
    }
    const double alive = status->alive_seconds() - engine_.alive_seconds();
    if (alive > 0)
      metrics["rollout/idle_ratio"] =
          std::clamp(1 - (status->busy_seconds() - engine_.busy_seconds()) / alive, 0.0, 1.0);
    const auto prompt = static_cast<double>(status->prompt_tokens() - engine_.prompt_tokens());
    if (prompt > 0) {
      metrics["rollout/prefix_cache_hit_ratio"] =
          static_cast<double>(status->cached_prompt_tokens() - engine_.cached_prompt_tokens()) / prompt;
    }
    if (alive > 0) {
      // Fewer than before: an engine left, and took its count along.
      const int64_t sampled = std::max<int64_t>(status->sampled_tokens() - engine_.sampled_tokens(), 0);
      metrics["rollout/sampled_tokens"] = static_cast<double>(sampled);
      metrics["rollout/alive_seconds"] = alive;
      metrics["rollout/sampled_tokens_per_second"] = static_cast<double>(sampled) / alive;
    }
    AddFirstToken(*status, metrics);
    engine_ = *status;
  }

  // The way of the newest version that has sampled a token, once: from the optimizer's step to that token. The version is
  // this step's, or the one before, whose first token came after its report.
  void AddFirstToken(const v1::EngineStatusResponse& status, std::map<std::string, double>& metrics) {
    double until_sent = 0;
    for (const char* part : {"snapshot", "save", "encode", "send"}) {
      const auto found = metrics.find(absl::StrCat("perf/update_weights_", part, "_ms"));
      if (found == metrics.end()) return;  // a skipped step, or one that could not be published
      until_sent += found->second;
    }
    until_sent_ms_[newest_] = until_sent;
    const v1::SwapTimes& times = status.first_token();
    const auto sent = until_sent_ms_.find(times.version());
    if (!status.has_first_token() || sent == until_sent_ms_.end()) return;
    metrics["perf/first_token_version"] = static_cast<double>(times.version());
    metrics["perf/first_token_ms"] = sent->second + times.fetch_ms() + times.apply_ms() + times.wait_ms() +
                                     times.pause_ms() + times.first_token_ms();
    metrics["perf/first_token_decode_ms"] = times.first_token_ms();
    metrics["perf/first_token_step_ms"] = times.step_ms();
    until_sent_ms_.erase(until_sent_ms_.begin(), std::next(sent));
  }

  void Tally(const trainer::StepReport& report, const std::map<std::string, double>& metrics,
             const v1::FeedStats& feed) {
    const auto get = [&metrics](const std::string& name) {
      const auto found = metrics.find(name);
      return found == metrics.end() ? 0.0 : found->second;
    };
    const double now = SecondsSince(*patience_.clock, start_);
    const double seconds = last_step_at_ < 0 ? 0 : now - last_step_at_;
    last_step_at_ = now;
    tally_.rewards.push_back(get("reward/mean"));
    for (const auto& [age, tokens] : report.staleness_histogram) tally_.staleness[age] += tokens;
    tally_.step_seconds += seconds;
    tally_.trainer_idle_seconds += seconds * get("trainer/idle_ratio");
    tally_.rollout_idle_seconds += seconds * get("rollout/idle_ratio");
    tally_.episodes = feed.finished_episodes();
    for (const auto& [name, value] : metrics) {
      if (!std::isfinite(value)) continue;
      MetricMean& mean = tally_.means[name];
      mean.sum += value;
      ++mean.steps;
    }
    if (const auto found = metrics.find("mismatch/logprob_abs_diff_max"); found != metrics.end()) {
      tally_.mismatch_max = std::max(tally_.mismatch_max.value_or(0), found->second);
    }
  }

  const TrainingSeams& seams_;
  base::RunLog& log_;
  StepLine& line_;
  RunTally& tally_;
  Evaluations& evaluations_;
  const Patience& patience_;
  const std::chrono::nanoseconds start_;  // of the run, on the clock
  double record_seconds_ = 0;             // of the step before: its row, and the evaluations that ended then
  v1::EngineStatusResponse engine_at_start_, engine_;  // engine_: at the step before
  bool reported_ = false;
  int64_t newest_ = 0;                       // the version of the report under way
  std::map<int64_t, double> until_sent_ms_;  // from the optimizer's step, of versions without a reported first token
  double last_step_at_ = -1;
};

// Whether the run's folder must hold the reference policy: it is the run's start weights, which later checkpoints lack.
bool KeepsReference(const RunConfig& config) {
  return config.trainer.needs_reference() && config.trainer.reference_path.empty();
}
std::string ReferencePath(const RunDir& dir) { return dir.path() + "/reference"; }

// The supervised stages before a reinforcement run. Their record is RUN/warm_start, so that RUN's own steps are RL
// alone.
absl::Status WarmStart(const RunConfig& config, const RunDir& dir, const ModelSetup& model, trainer::Trainer& trainer,
                       bool again, StepLine& line, const std::atomic<bool>& stop) {
  StageRecord record;
  record.note = [&line](const std::string& text) { line.Note("warm start: " + text); };
  record.progress = [&line](const std::string& text) { line.Progress("warm start: " + text); };
  record.folder = dir.path() + "/warm_start";
  record.checkpoints = dir.stages();
  record.again = again;
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

absl::StatusOr<std::unique_ptr<trainer::Trainer>> StartOrResume(const RunConfig& config, const RunDir& dir,
                                                                const ModelSetup& model, trainer::Ranks* ranks,
                                                                bool resume, StepLine& line,
                                                                const std::atomic<bool>& stop) {
  if (resume) {
    const absl::StatusOr<trainer::CheckpointInfo> latest = trainer::LatestCheckpoint(dir.checkpoints());
    if (latest.ok()) {
      for (const std::string& why : latest->rejected) INGOT_LOG(warn, "checkpoint passed over: {}", why);
      line.Note(fmt::format("resuming from {}", latest->path));
      INGOT_RETURN_IF_ERROR(BroadcastStart(ranks, latest->path));
      return FromCheckpoint(config, dir, latest->path, model.device, ranks);
    }
    if (latest.status().code() != absl::StatusCode::kNotFound) return latest.status();
    line.Note("no checkpoint yet: starting from the beginning");
  }
  INGOT_RETURN_IF_ERROR(BroadcastStart(ranks, ""));
  INGOT_ASSIGN_OR_RETURN(std::unique_ptr<trainer::Trainer> trainer, NewTrainer(config, model, ranks));
  if (!config.sft_data.empty() || !config.dpo_data.empty()) {
    INGOT_RETURN_IF_ERROR(WarmStart(config, dir, model, *trainer, resume, line, stop));
  }
  if (KeepsReference(config)) {
    INGOT_RETURN_IF_ERROR(
        base::Annotate(model::SaveModelDir(ReferencePath(dir), trainer->config(), trainer->parameters()),
                       "keeping the reference policy"));
  }
  return trainer;
}

// The checkpoint of a resumed run must have the model that the configuration names.
absl::Status CheckSameModel(const model::ModelConfig& configured, const trainer::Trainer& trainer, const RunDir& dir) {
  absl::Status same = model::Parameters::CheckSameShapes(configured, trainer.config());
  if (same.ok()) return same;
  return absl::FailedPreconditionError(
      absl::StrCat("the checkpoint in ", dir.checkpoints(),
                   " is of another model than the configuration's: ", std::string(same.message()),
                   "; set model as it was when the run started, or start another run under another run.name"));
}

// Results in the record that the run continues.
struct RecordedRows {
  std::vector<double> rewards;          // reward/mean of the steps
  std::map<int64_t, double> evaluated;  // eval/reward_mean by version
};

RecordedRows ReadRecord(const std::string& path) {
  RecordedRows earlier;
  std::ifstream file(path);
  std::string text;
  while (std::getline(file, text)) {
    const absl::StatusOr<base::json::value> line = base::ParseJson(text);
    if (!line.ok()) continue;
    const base::json::value* evaluated = base::Find(*line, "eval/version");
    if (evaluated != nullptr && evaluated->is_int64()) {
      const base::json::value* mean = base::Find(*line, "eval/reward_mean");
      const bool number = mean != nullptr && mean->is_number();
      earlier.evaluated[evaluated->get_int64()] = number ? mean->to_number<double>() : std::nan("");
    }
    const base::json::value* reward = base::Find(*line, "reward/mean");
    if (reward == nullptr) continue;
    earlier.rewards.push_back(reward->is_number() ? reward->to_number<double>() : std::nan(""));
  }
  return earlier;
}

// A run that goes on waits while its disk is full, as it does at every later write; a new one fails at once.
absl::StatusOr<std::unique_ptr<base::RunLog>> OpenLog(const base::RunLogOptions& options, base::Metrics& metrics,
                                                      const Patience& patience) {
  const base::Clock& clock = base::Clock::Real();
  if (options.resume_step < 0) return base::RunLog::Open(options, &metrics, clock);
  std::unique_ptr<base::RunLog> log;
  INGOT_RETURN_IF_ERROR(Persist(patience, "opening the record of the run", [&]() -> absl::Status {
    INGOT_ASSIGN_OR_RETURN(log, base::RunLog::Open(options, &metrics, clock));
    return absl::OkStatus();
  }));
  return log;
}

}  // namespace

absl::Status FollowTraining(const RunConfig& config, const RunDir& dir, const std::string& device,
                            trainer::Ranks& ranks, std::optional<weights::VersionStore> store) {
  INGOT_ASSIGN_OR_RETURN(const ModelSetup model, SetUpModel(config.model, device));
  INGOT_ASSIGN_OR_RETURN(const std::string checkpoint, ranks.BroadcastBytes("", 0));
  INGOT_ASSIGN_OR_RETURN(
      const std::unique_ptr<trainer::Trainer> trainer,
      checkpoint.empty() ? NewTrainer(config, model, &ranks) : FromCheckpoint(config, dir, checkpoint, device, &ranks));
  if (store.has_value()) trainer->StoreVersionsIn(*std::move(store));
  return trainer->Follow();
}

absl::StatusOr<TrainingResult> RunTraining(const LoadedConfig& loaded, const RunDir& dir, const TrainingSeams& seams,
                                           bool resume, base::Metrics& metrics, const std::atomic<bool>& stop) {
  const RunConfig& config = *loaded.config;
  const base::Clock& clock = base::Clock::Real();
  const std::chrono::nanoseconds start = clock.Now();
  StepLine line(stdout, config.name, config.trainer.total_steps);
  INGOT_ASSIGN_OR_RETURN(const ModelSetup model, SetUpModel(config.model, seams.device));
  INGOT_ASSIGN_OR_RETURN(std::unique_ptr<trainer::Trainer> trainer,
                         StartOrResume(config, dir, model, seams.ranks, resume, line, stop));
  const int64_t first_step = trainer->version();
  if (seams.store.has_value()) trainer->StoreVersionsIn(*seams.store);

  INGOT_RETURN_IF_ERROR(CheckSameModel(model.shape, *trainer, dir));
  base::RunLogOptions log_options;
  log_options.directory = dir.path();
  log_options.max_labels = config.metrics.max_labels;
  log_options.resume_step = resume ? first_step : -1;
  // The last evaluation of a run that was made longer stays; a run without a step left repeats it.
  log_options.keep_version = first_step < config.trainer.total_steps ? first_step : first_step - 1;
  const Patience patience{.stop = &stop};
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<base::RunLog> log, OpenLog(log_options, metrics, patience));
  const RecordedRows earlier = ReadRecord(dir.metrics());
  RunTally tally;
  tally.rewards = earlier.rewards;
  INGOT_ASSIGN_OR_RETURN(Evaluations evaluations,
                         Evaluations::Create(config.eval, config.trainer.total_steps, MostEvaluations(config),
                                             *seams.scheduler, *seams.publisher));

  const PinnedVersions pinned(config.gateway, dir);
  INGOT_RETURN_IF_ERROR(pinned.Restore(first_step, *seams.publisher));
  RunVersions versions(seams, evaluations, pinned, trainer->config(), patience);
  if (first_step == 0) {
    // A crash before the first due checkpoint resumes from this one, so that no warm start is repeated.
    trainer::CheckpointInfo checkpoint;
    const Underway writing("writing checkpoint 0");
    INGOT_RETURN_IF_ERROR(Persist(patience, "writing checkpoint 0", [&]() -> absl::Status {
      INGOT_ASSIGN_OR_RETURN(checkpoint, trainer->SaveCheckpoint(dir.checkpoints(), model.text.files));
      return absl::OkStatus();
    }));
    INGOT_RETURN_IF_ERROR(versions.OnCheckpoint(checkpoint));
    INGOT_RETURN_IF_ERROR(dir.DropStages());
  }
  PoolBatchSource source(seams, patience, line);
  RunRecorder recorder(seams, *log, line, tally, evaluations, patience, start);
  trainer::LoopOptions loop_options;
  loop_options.checkpoint_root = dir.checkpoints();
  loop_options.extra_files = model.text.files;
  evaluations.RetainAfterwards([&pinned](int64_t version) { return pinned.Pins(version); });
  std::set<int64_t> evaluated;
  for (const auto& [version, mean] : earlier.evaluated) evaluated.insert(version);
  INGOT_RETURN_IF_ERROR(evaluations.Resume(first_step, evaluated, patience));
  INGOT_RETURN_IF_ERROR(evaluations.Poll(recorder.OnEvaluation()));
  loop_options.persist = [&patience](const std::string& what, const std::function<absl::Status()>& write) {
    const Underway writing(what);
    return Persist(patience, what, write);
  };
  if (seams.writer != nullptr) {
    loop_options.take = [&]() -> absl::StatusOr<std::shared_ptr<const weights::Snapshot>> {
      std::shared_ptr<const weights::Snapshot> version;
      INGOT_RETURN_IF_ERROR(Persist(patience, "storing the version", [&]() -> absl::Status {
        INGOT_ASSIGN_OR_RETURN(version, trainer->StoreVersion(seams.writer->newest(), seams.writer->AnchorDue()));
        return absl::OkStatus();
      }));
      return version;
    };
  }
  loop_options.retain = [&](int64_t version) { return evaluations.Retains(version) || pinned.Pins(version); };
  const trainer::ProbeSource probe = [&](int64_t version, int64_t tokens) {
    return SampleProbe(*seams.engine, version, tokens, source.contexts(), source.temperature(),
                       base::DeriveSeed(config.seed, static_cast<uint64_t>(version)), kProbeTimeout);
  };
  trainer::TrainLoop loop(loop_options, *trainer, source, versions, &recorder, probe);
  const absl::Status ran = loop.Run(), dismissed = trainer->Dismiss();
  INGOT_RETURN_IF_ERROR(ran);
  INGOT_RETURN_IF_ERROR(dismissed);

  INGOT_RETURN_IF_ERROR(
      evaluations.Finish(recorder.OnEvaluation(), patience, [&line](const std::string& text) { line.Note(text); }));

  for (const auto text : absl::StrSplit(FormatSummary(tally, SecondsSince(clock, start), first_step), '\n')) {
    line.Note(std::string(text));
  }
  for (const std::string& doubt : EndDoubts(config, tally)) line.Note("doubt: " + doubt);
  // The record has the evaluations of this process and of those before it.
  const std::map<int64_t, double> evaluations_made = ReadRecord(dir.metrics()).evaluated;
  const auto newest = evaluations_made.find(trainer->version());
  const GoalVerdict verdict =
      JudgeGoal(config.goal, tally.rewards,
                newest == evaluations_made.end() ? std::nullopt : std::optional<double>(newest->second));
  if (!verdict.text.empty()) line.Note(verdict.text);
  return TrainingResult{tally.rewards, verdict.met, verdict.text};
}

}  // namespace ingot::app
