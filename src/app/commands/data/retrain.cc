// `ingot retrain`: trains on a run's stored batches with another configuration, without a rollout. Creates a run folder
// with a record, checkpoints, and a page, but has no gateway, agents, or engines and publishes no versions.
#include "app/commands/data/retrain.h"
#include "app/checks/custom_loss_check.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "app/checks/model_keys.h"
#include "app/checks/summary.h"
#include "app/commands/run/run_command.h"
#include "app/models/device.h"
#include "app/models/kept_tokenizer.h"
#include "app/models/model_setup.h"
#include "app/record/run_view.h"
#include "app/record/stored_run.h"
#include "app/run/compute_members.h"
#include "app/run/kept_loss.h"
#include "app/run/kept_template.h"
#include "app/run/persist.h"
#include "app/run/process.h"
#include "app/run/resume_check.h"
#include "app/run/threads.h"
#include "app/terminal/progress.h"
#include "app/terminal/seconds.h"
#include "app/terminal/shell_word.h"
#include "app/terminal/terminal.h"
#include "app/terminal/work_lines.h"
#include "app/training/grading.h"
#include "app/training/run_record.h"
#include "app/training/run_recorder.h"
#include "app/training/stored_batch_source.h"
#include "app/training/trainer_start.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "kernels/torch/exact.h"
#include "trainer/loop.h"
#include "trainer/pass/tensor_memory.h"
#include "trainer/trainer.h"

namespace ingot::app {
namespace {

namespace fs = std::filesystem;

// The run with the batches, and the configuration for training on them.
struct Inputs {
  StoredRun run;
  StoredBatches stored;
  LoadedConfig loaded;

  const RunConfig& config() const { return *loaded.config; }
};

// Keys that the batches depend on. If the configuration does not set them, they come from the run. The model section is
// one unit: if the configuration sets one of its keys, none come from the run.
void TakeFromRun(const StoredRun& run, LoadedConfig& loaded) {
  const RunConfig& before = run.config();
  const auto named = [&loaded](const std::string& key) { return loaded.schema.Origin(key) != "default"; };
  RunConfig& config = *loaded.config;
  const std::vector<std::string> keys = loaded.schema.Keys();
  if (std::none_of(keys.begin(), keys.end(),
                   [&](const std::string& key) { return key.starts_with("model.") && named(key); })) {
    ModelOptions model = before.model;
    model.path = KeptModelPath(run.folder, model.path);
    model.lora = config.model.lora;
    model.lora_dropout = config.model.lora_dropout;
    model.lora_init = config.model.lora_init;
    config.model = std::move(model);
  }
  if (!named("run.seed")) {
    config.seed = before.seed;
    config.trainer.seed = before.seed;
  }
  if (!named("scheduler.group_size")) {
    config.scheduler.group_size = before.scheduler.group_size;
    config.trainer.group_size = before.scheduler.group_size;
  }
  if (!named("scheduler.groups_per_step")) {
    config.scheduler.groups_per_step = before.scheduler.groups_per_step;
    config.trainer.groups_per_step = before.scheduler.groups_per_step;
  }
}

absl::Status CheckKey(const char* key, int64_t given, int64_t stored) {
  if (given == stored) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(key, " is ", given, ", but the stored batches were made with ", stored,
                                                 ": set it to ", stored, ", or remove it"));
}

absl::Status CheckConfig(const std::string& run_dir, const RunConfig& before, const RunConfig& config) {
  INGOT_RETURN_IF_ERROR(RequireTasks(config));
  if (config.cluster.trainer_ranks > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("cluster.trainer_ranks is ", config.cluster.trainer_ranks,
                     ": `ingot retrain` trains on one rank; use --set cluster.trainer_ranks=1"));
  }
  const std::string folder = absl::StrCat(config.root, "/", config.name);
  if (std::error_code none; fs::equivalent(run_dir, folder, none)) {
    return absl::InvalidArgumentError(absl::StrCat("run.root/run.name is ", folder,
                                                   ", the run whose batches are trained on: choose another run.name"));
  }
  if (config.trainer.by_role() && before.agents.branching.width > 0) {
    return absl::InvalidArgumentError(
        "trainer.advantage_groups is role, but the stored groups branch (agents.branching.width): a trunk's turns "
        "count for all its leaves, so they cannot be credited to a role; set it to episode");
  }
  INGOT_RETURN_IF_ERROR(CheckKey("scheduler.group_size", config.scheduler.group_size, before.scheduler.group_size));
  return CheckKey("scheduler.groups_per_step", config.scheduler.groups_per_step, before.scheduler.groups_per_step);
}

absl::Status CheckLeft(const std::string& run_dir, const StoredBatches& stored) {
  if (!stored.Whole().empty()) return absl::OkStatus();
  const std::vector<int64_t> gone = stored.Gone();
  if (gone.empty()) {
    return absl::NotFoundError(
        absl::StrCat("'", run_dir, "' has no batch to train on: its journal has no trained step"));
  }
  return absl::NotFoundError(absl::StrCat("'", run_dir, "' has no batch left to train on: the groups of its steps ",
                                          DescribeSteps(gone), " are no longer in the pool (datapool.keep_steps)"));
}

absl::StatusOr<Inputs> ReadInputs(const RetrainArgs& args) {
  const Underway reading("retrain: reading the run");
  Inputs inputs;
  INGOT_ASSIGN_OR_RETURN(inputs.loaded, LoadRunConfig(args.run.config, args.run.overrides));
  INGOT_ASSIGN_OR_RETURN(inputs.run, OpenStoredRun(args.run_dir));
  TakeFromRun(inputs.run, inputs.loaded);
  INGOT_RETURN_IF_ERROR(CheckConfig(args.run_dir, inputs.run.config(), inputs.config()));
  INGOT_ASSIGN_OR_RETURN(inputs.stored, ReadStoredBatches(*inputs.run.pool));
  INGOT_RETURN_IF_ERROR(CheckLeft(args.run_dir, inputs.stored));
  return inputs;
}

// Returns a canonical path, so that different paths to the same folder are equal.
std::string FullPath(const std::string& folder) {
  std::error_code failed;
  const fs::path path = fs::canonical(folder, failed);
  return failed ? folder : path.string();
}

absl::Status KeepBatches(const RunDir& dir, const std::string& run_dir, const std::vector<StoredBatch>& batches) {
  base::json::array steps;
  for (const StoredBatch& batch : batches) steps.push_back(batch.step);
  const base::json::object record{{"run", FullPath(run_dir)}, {"steps", std::move(steps)}};
  return dir.WriteFile(kRetraining, base::PrintJson(record) + "\n");
}

// Returns the batches chosen by the first start, regardless of what the pool has lost since.
absl::StatusOr<std::vector<StoredBatch>> KeptBatches(const RunDir& dir, const std::string& run_dir,
                                                     const StoredBatches& stored) {
  const std::string path = absl::StrCat(dir.path(), "/", kRetraining);
  const absl::StatusOr<std::string> text = base::ReadFile(path);
  if (absl::IsNotFound(text.status())) {
    return absl::FailedPreconditionError(absl::StrCat("the run '", dir.path(), "' was not created by `ingot retrain` (",
                                                      path, " does not exist): choose another run.name"));
  }
  INGOT_RETURN_IF_ERROR(text.status());
  INGOT_ASSIGN_OR_RETURN(const base::json::value record, base::ParseJson(*text));
  const base::json::value* const run = base::Find(record, "run");
  const base::json::value* const steps = base::Find(record, "steps");
  if (run == nullptr || !run->is_string() || steps == nullptr || !steps->is_array()) {
    return absl::DataLossError(absl::StrCat(path, " does not name a run and its steps: start a new run"));
  }
  const std::string kept(run->get_string().data(), run->get_string().size());
  if (kept != FullPath(run_dir)) {
    return absl::FailedPreconditionError(absl::StrCat("the run '", dir.path(), "' trains on the batches of ", kept,
                                                      ": name that run, or choose another run.name"));
  }
  std::map<int64_t, const StoredBatch*> by_step;
  for (const StoredBatch& batch : stored.trained) by_step[batch.step] = &batch;
  std::vector<StoredBatch> batches;
  for (const base::json::value& step : steps->get_array()) {
    const auto found = step.is_int64() ? by_step.find(step.get_int64()) : by_step.end();
    if (found == by_step.end()) {
      return absl::FailedPreconditionError(absl::StrCat(path, " names step ", base::PrintJson(step), ", which ", kept,
                                                        " did not train, because it was replaced: start a new run"));
    }
    batches.push_back(*found->second);
  }
  return batches;
}

// Returns whether the metric is about a scheduler, engines, or tokens that this trainer's own versions sampled.
bool IsOfARollout(const std::string& metric) {
  return metric.starts_with("scheduler/") || metric.starts_with("mismatch/") ||
         metric.starts_with("perf/update_weights_");
}

class RecordedSteps final : public trainer::StepObserver {
 public:
  // REQUIRES: all arguments outlive this object.
  RecordedSteps(base::RunLog& log, StepLine& line, std::vector<double>& rewards, const RetryPolicy& retry)
      : log_(log), line_(line), rewards_(rewards), retry_(retry), start_(retry.clock->Now()) {}

  absl::Status OnStep(const trainer::StepReport& report, const trainer::TrainBatch& batch) override {
    std::map<std::string, double> metrics = report.metrics;
    metrics.merge(AgentMetrics(batch.groups));
    std::erase_if(metrics, [](const auto& metric) { return IsOfARollout(metric.first); });
    INGOT_RETURN_IF_ERROR(Persist(retry_, "writing the run's metrics",
                                  [&] { return log_.Write(report.step, StepFields(report, metrics)); }));
    if (const auto reward = metrics.find("reward/mean"); reward != metrics.end()) rewards_.push_back(reward->second);
    line_.Step(report.step, metrics, SecondsSince(*retry_.clock, start_));
    return absl::OkStatus();
  }

 private:
  base::RunLog& log_;
  StepLine& line_;
  std::vector<double>& rewards_;
  const RetryPolicy& retry_;
  const std::chrono::nanoseconds start_;
};

// An open run folder and the batches for its steps.
struct Job {
  const LoadedConfig& loaded;
  const RunDir& dir;
  const ModelSetup& model;
  const std::vector<StoredBatch>& batches;
  int64_t end;  // the last version
  bool resume;
};

absl::Status TrainOnBatches(const Job& job, const RetryPolicy& retry, trainer::BatchSource& source,
                            base::Metrics& metrics) {
  const RunConfig& config = *job.loaded.config;
  StepLine line(stdout, config.name, job.end);
  WorkLines work(line);
  work.Start();
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<trainer::Trainer> trainer,
                         StartOrResume(config, job.dir, job.model, /*ranks=*/nullptr, job.resume, line, *retry.stop));
  INGOT_RETURN_IF_ERROR(job.dir.DropReplaced());
  // The trainer borrows the threads of the engines that this run does not have.
  trainer->BorrowThreads(
      ComputeMemberOf(config, job.model.device, std::make_shared<kernels::ComputeTable>(), "trainer", 0));
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<base::RunLog> log,
                         OpenRecord(config, job.dir, job.resume, trainer->version(), metrics, retry));
  std::vector<double> rewards = ReadRecord(job.dir.metrics()).rewards;
  NoVersionSink versions;
  if (trainer->version() == 0) INGOT_RETURN_IF_ERROR(SaveStart(*trainer, job.model, job.dir, versions, retry));

  trainer::LoopOptions options = LoopOptionsOf(job.model, job.dir, retry);
  options.end = job.end;
  RecordedSteps steps(*log, line, rewards, retry);
  INGOT_RETURN_IF_ERROR(trainer::TrainLoop(options, *trainer, source, versions, &steps, /*probe=*/nullptr).Run());
  line.Note(absl::StrCat("reward by step   ", Sparkline(rewards), "  (as stored: no step has a rollout)"));
  line.Note(absl::StrCat("the model of version ", trainer->version(), " is in ", job.dir.checkpoints()));
  return absl::OkStatus();
}

// Reports, in the log and on the terminal, which part of the stored run is not used.
void ReportLimits(const RetrainArgs& args, const Inputs& inputs, int64_t stored, int64_t end) {
  if (const std::vector<int64_t> gone = inputs.stored.Gone(); !gone.empty()) {
    INGOT_LOG(warn, "steps {} of {} are no longer in its pool (datapool.keep_steps) and are skipped",
              DescribeSteps(gone), args.run_dir);
  }
  if (args.steps > stored) INGOT_LOG(warn, "--steps is {}, but only {} steps are stored", args.steps, stored);
  const int64_t wanted = args.steps > 0 ? std::min(args.steps, stored) : stored;
  if (end < wanted) INGOT_LOG(warn, "scheduler.total_steps ends the training after {} of {} stored steps", end, stored);
  if (RewardsText(inputs.config().rewards) != RewardsText(inputs.run.config().rewards)) {
    INGOT_LOG(warn,
              "warning: the section rewards differs from {} but has no effect: retraining uses the stored "
              "rewards",
              args.run_dir);
  }
}

std::string CommandLineOf(const RetrainArgs& args) {
  const std::string command = CommandOf("retrain " + Quoted(args.run_dir), args.run);
  return args.steps > 0 ? absl::StrCat(command, " --steps ", args.steps) : command;
}

absl::StatusOr<int> RetrainOrError(const RetrainArgs& args) {
  trainer::KeepTensorMemory();
  INGOT_ASSIGN_OR_RETURN(const Inputs inputs, ReadInputs(args));
  const RunConfig& config = inputs.config();
  INGOT_RETURN_IF_ERROR(CheckThreads(ThreadsOf(config)));
  kernels::SetDeviceNumerics(config.numerics);
  INGOT_ASSIGN_OR_RETURN(const DeviceChoice device, OpenDevice(config.device));
  INGOT_ASSIGN_OR_RETURN(const ModelSetup model, SetUpModel(config.model, device.torch_name));
  INGOT_RETURN_IF_ERROR(CheckModelKeys(config, model.shape));
  INGOT_ASSIGN_OR_RETURN(inputs.loaded.config->trainer.custom.graph, CheckCustomLoss(config));
  const RetryPolicy retry{.stop = &StopFlag()};
  const std::string fingerprint = model.text.tokenizer->fingerprint();
  std::vector<StoredBatch> batches = inputs.stored.Whole();
  // Detects a wrong tokenizer before a run is replaced.
  INGOT_RETURN_IF_ERROR(StoredBatchSource(*inputs.run.pool, {batches.front()}, fingerprint, retry).Next(0).status());

  INGOT_ASSIGN_OR_RETURN(
      const RunDir dir, RunDir::Open(config.root, config.name, args.run.resume ? IfExists::kResume : config.if_exists));
  if (dir.existed()) {
    INGOT_ASSIGN_OR_RETURN(batches, KeptBatches(dir, args.run_dir, inputs.stored));
  }
  base::InitLogging("retrain", config.log_level, dir.logs() + "/ingot.log");
  if (dir.existed()) INGOT_RETURN_IF_ERROR(CheckResumable(inputs.loaded, dir));
  const std::string effective = inputs.loaded.schema.EffectiveYaml();
  INGOT_RETURN_IF_ERROR(dir.WriteFile("config.yaml", effective));
  INGOT_RETURN_IF_ERROR(KeepChatTemplate(config.model, dir));
  INGOT_RETURN_IF_ERROR(KeepLoss(config.trainer, dir));
  INGOT_RETURN_IF_ERROR(KeepTokenizer(dir.path(), config.model.path, model.text));
  INGOT_RETURN_IF_ERROR(KeepBatches(dir, args.run_dir, batches));
  INGOT_RETURN_IF_ERROR(KeepCommand(dir, CommandLineOf(args)));
  INGOT_LOG(info, "effective configuration:\n{}", effective);

  const auto stored = static_cast<int64_t>(batches.size());
  const int64_t end = std::min(args.steps > 0 ? std::min(args.steps, stored) : stored, config.trainer.total_steps);
  ReportLimits(args, inputs, stored, end);
  base::Metrics metrics(config.metrics.max_labels);
  const auto device_watch = ReportDevice(device, metrics);
  std::printf("%s: %ld steps on the batches of %s, from its step %ld on  run folder %s\n", config.name.c_str(),
              static_cast<long>(end), args.run_dir.c_str(), static_cast<long>(batches.front().step),
              dir.path().c_str());
  StoredBatchSource source(*inputs.run.pool, batches, fingerprint, retry);
  const Job job{inputs.loaded, dir, model, batches, end, dir.existed()};
  const absl::Status trained = TrainInView(inputs.loaded, dir, model.text.tokenizer, kRetrainedHasNoPool, metrics,
                                           [&] { return TrainOnBatches(job, retry, source, metrics); });
  INGOT_RETURN_IF_ERROR(WithNext(trained, dir, CommandLineOf(args)));
  PrintNextCommands(dir.path());
  return 0;
}

}  // namespace

int Retrain(const RetrainArgs& args) {
  HandleSignals();
  const absl::StatusOr<int> code = RetrainOrError(args);
  return code.ok() ? *code : Fail(code.status());
}

}  // namespace ingot::app
