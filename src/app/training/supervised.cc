#include "app/training/supervised.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <utility>

#include "app/checks/supervised_examples.h"
#include "app/terminal/progress.h"
#include "app/terminal/seconds.h"
#include "app/terminal/terminal.h"
#include "app/terminal/work_lines.h"
#include "base/log.h"
#include "base/run_log.h"
#include "dataset/preferences.h"
#include "model/peft.h"
#include "trainer/checkpoints/stage_checkpoints.h"
#include "trainer/run_memory.h"
#include "trainer/torch_edge.h"

namespace ingot::app {
namespace {

// Reports how many turns of the file are rendered with concessions to the chat template (text/chat/concession.h).
void ReportConcessions(const std::string& path, const text::ConcessionCounts& counts, const StageRecord& record) {
  std::string kinds;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    const std::string kind(text::kConcessionNames[i]);
    fmt::format_to(std::back_inserter(kinds), "{}{} {}", kinds.empty() ? "" : ", ", kind, counts[i]);
    if (record.metrics == nullptr) continue;
    record.metrics
        ->GetGauge("ingot_supervised_concessions",
                   "Supervised turns whose conversation the chat template rejected, by the change that was made to "
                   "render them.",
                   {{"file", path}, {"kind", kind}})
        .Set(static_cast<double>(counts[i]));
  }
  if (!kinds.empty()) record.note(fmt::format("{}: turns with concessions to the chat template: {}", path, kinds));
}

// Reports the properties of the stages' files before the stages begin.
void ReportExamples(const SupervisedExamples& examples, const RunConfig& config, const StageRecord& record) {
  ReportConcessions(config.sft_data, examples.sft.concessions, record);
  ReportConcessions(config.dpo_data, examples.dpo.concessions, record);
  if (const int64_t alike = dataset::CountAlike(examples.dpo.calls); alike > 0) {
    INGOT_LOG(warn, "{}: both sides of {} of {} pairs have the same tokens, so they teach nothing", config.dpo_data,
              alike, examples.dpo.count);
  }
}

// Reports a stage's steps: progress and five lines per stage on the terminal, and every step in the record.
trainer::SftObserver Observe(const std::string& name, const std::string& shown, int64_t& steps,
                             const StageRecord& record, base::RunLog& log, const std::atomic<bool>& stop) {
  // The time until this process's first step includes loading.
  return [&, name, shown, first = int64_t{-1},
          start = std::chrono::nanoseconds(0)](const trainer::SftReport& report) mutable -> absl::Status {
    if (first < 0) {
      first = report.step;
      start = record.clock->Now();
    }
    const std::string figure =
        absl::StrCat(shown.substr(shown.find('/') + 1), " ", FormatMetric("{:.4f}", report.metrics, shown));
    const std::string line = FormatStage(name, report.step + 1, report.total_steps, figure, report.step - first,
                                         SecondsSince(*record.clock, start));
    const int64_t every = std::max<int64_t>(1, report.total_steps / 5);
    if ((report.step + 1) % every == 0) {
      record.note(absl::StrCat(line, "  ", FormatSpeedup(report.metrics)));
    } else if (record.progress) {
      record.progress(line);
    }
    base::json::object fields;
    for (const auto& [metric, value] : report.metrics) fields[metric] = value;
    INGOT_RETURN_IF_ERROR(log.Write(steps++, fields));  // recorded before a stop saves a checkpoint with this step
    return stop ? absl::CancelledError("the run was stopped") : absl::OkStatus();
  };
}

}  // namespace

absl::Status BroadcastStart(trainer::Ranks* ranks, const std::string& checkpoint) {
  return ranks == nullptr ? absl::OkStatus() : ranks->BroadcastBytes(checkpoint, 0).status();
}

namespace {

// Moves the parameters to the device where the trainer computes.
absl::Status Place(model::Parameters& parameters, const std::string& device) {
  return trainer::AtTorchEdge(absl::StrCat("placing the parameters on ", device), [&] {
    for (auto& [name, tensor] : parameters.tensors()) tensor = tensor.to(at::Device(device));
    return absl::OkStatus();
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<trainer::Trainer>> NewTrainer(const RunConfig& config, const ModelSetup& model,
                                                             trainer::Ranks* ranks) {
  INGOT_RETURN_IF_ERROR(trainer::CheckFits(config.trainer, model.shape, at::Device(model.device), ranks));
  if (config.model.path.empty()) {
    model::Parameters parameters = model::Parameters::Init(model.shape, config.seed, at::kFloat);
    INGOT_RETURN_IF_ERROR(Place(parameters, model.device));
    return trainer::Trainer::Create(config.trainer, model.shape, std::move(parameters), base::Clock::Real(), ranks);
  }
  const Underway loading("loading " + config.model.path);
  INGOT_ASSIGN_OR_RETURN(model::ModelFolder loaded, model::LoadModelDir(config.model.path));
  if (model.shape.lora.rank > 0) {
    INGOT_RETURN_IF_ERROR(config.model.lora_init == "default"
                              ? model::AddAdapters(model.shape.lora, config.seed, &loaded)
                              : model::AddAdapters(config.model.lora_init, &loaded));
  }
  INGOT_RETURN_IF_ERROR(Place(loaded.parameters, model.device));
  return trainer::Trainer::Create(config.trainer, loaded.config, std::move(loaded.parameters), base::Clock::Real(),
                                  ranks);
}

namespace {

absl::Status WarmUpDraft(const RunConfig& config, trainer::Trainer& trainer, const StageExamples& conversations,
                         const StageRecord& record, const std::atomic<bool>& stop) {
  if (!config.trainer.draft.enabled || config.trainer.draft.warmup_steps == 0 || conversations.count == 0) {
    return absl::OkStatus();
  }
  const auto start = record.clock->Now();
  std::string figures;
  INGOT_RETURN_IF_ERROR(trainer.WarmUpDraft(conversations.calls, [&](const trainer::SftReport& report) -> absl::Status {
    figures = absl::StrCat("loss ", FormatMetric("{:.4f}", report.metrics, "draft/loss"), ", overlap ",
                           FormatMetric("{:.3f}", report.metrics, "draft/overlap"));
    if (record.progress) {
      record.progress(fmt::format("draft head {}/{}  {}", report.step + 1, report.total_steps, figures));
    }
    return stop ? absl::CancelledError("the run was stopped") : absl::OkStatus();
  }));
  record.note(fmt::format("draft head warmed up: {} steps, {}, {:.1f} s", config.trainer.draft.warmup_steps, figures,
                          SecondsSince(*record.clock, start)));
  return absl::OkStatus();
}

}  // namespace

absl::Status RunStages(const RunConfig& config, const ModelSetup& model, trainer::Trainer& trainer,
                       const StageRecord& record, const std::atomic<bool>& stop) {
  // Reads both files first, so that an error in the second is not found after hours of the first.
  INGOT_ASSIGN_OR_RETURN(const SupervisedExamples examples, ReadSupervisedExamples(config, model.text, model.shape));
  const StageExamples &conversations = examples.sft, &pairs = examples.dpo;
  ReportExamples(examples, config, record);
  if (record.on_start) INGOT_RETURN_IF_ERROR(record.on_start());
  base::RunLogOptions log_options;
  log_options.directory = record.folder;
  const std::string sft_root = record.checkpoints + "/sft", dpo_root = record.checkpoints + "/dpo";
  INGOT_ASSIGN_OR_RETURN(const int64_t sft_taken, trainer::StageSteps(sft_root));
  INGOT_ASSIGN_OR_RETURN(const int64_t dpo_taken, trainer::StageSteps(dpo_root));
  int64_t steps = sft_taken + dpo_taken;
  if (steps > 0) record.note(fmt::format("resuming after {} supervised steps", steps));
  log_options.resume_step = record.again ? steps : -1;
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<base::RunLog> log,
                         base::RunLog::Open(log_options, record.metrics, base::Clock::Real()));
  const int threads = std::max(1, SplitCores(config).total / config.cluster.trainer_ranks);
  if (conversations.count > 0) {
    const auto start = record.clock->Now();
    INGOT_RETURN_IF_ERROR(
        base::Annotate(trainer.RunSft(conversations.calls, Observe("supervised", "sft/nll", steps, record, *log, stop),
                                      sft_root, threads),
                       config.sft_data));
    record.note(fmt::format("supervised stage done: {} conversations, {:.1f} s", conversations.count,
                            SecondsSince(*record.clock, start)));
  }
  if (pairs.count > 0) {
    const auto start = record.clock->Now();
    INGOT_RETURN_IF_ERROR(
        base::Annotate(trainer.RunDpo(pairs.calls, Observe("preferences", "dpo/accuracy", steps, record, *log, stop),
                                      dpo_root, threads),
                       config.dpo_data));
    record.note(
        fmt::format("preference stage done: {} pairs, {:.1f} s", pairs.count, SecondsSince(*record.clock, start)));
  }
  return WarmUpDraft(config, trainer, conversations, record, stop);
}

absl::StatusOr<bool> SupervisedIsDone(const RunDir& dir) {
  const absl::StatusOr<trainer::CheckpointInfo> done = trainer::LatestCheckpoint(dir.checkpoints());
  if (absl::IsNotFound(done.status())) return false;
  INGOT_RETURN_IF_ERROR(done.status());
  std::printf("nothing left to do: %s exists\n", done->path.c_str());
  return true;
}

absl::Status TrainSupervised(const RunConfig& config, const RunDir& dir, const ModelSetup& model, trainer::Ranks* ranks,
                             bool resume, base::Metrics& metrics, const std::atomic<bool>& stop) {
  StepLine line(stdout, config.name, 0);
  WorkLines work(line);
  work.Start();
  INGOT_RETURN_IF_ERROR(BroadcastStart(ranks, ""));
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<trainer::Trainer> trainer, NewTrainer(config, model, ranks));
  StageRecord record;
  record.note = [&line](const std::string& text) { line.Note(text); };
  record.progress = [&line](const std::string& text) { line.Progress(text); };
  record.folder = dir.path();
  record.checkpoints = dir.stages();
  record.again = resume;
  record.on_start = [&dir] { return dir.DropReplaced(); };
  record.metrics = &metrics;
  const absl::Status trained = [&]() -> absl::Status {
    INGOT_RETURN_IF_ERROR(RunStages(config, model, *trainer, record, stop));
    const Underway writing("writing the model");
    INGOT_ASSIGN_OR_RETURN(const trainer::CheckpointInfo saved,
                           trainer->SaveCheckpoint(dir.checkpoints(), model.text.files));
    INGOT_RETURN_IF_ERROR(dir.DropStages());
    line.Note(fmt::format("the model is in {}", saved.path));
    return absl::OkStatus();
  }();
  const absl::Status dismissed = trainer->Dismiss();
  return trained.ok() ? dismissed : trained;
}

}  // namespace ingot::app
