#include "app/roles/evaluate_once.h"

#include <cstdio>
#include <string>

#include "app/run/process.h"
#include "app/terminal/progress.h"
#include "app/training/evaluation.h"
#include "base/printable.h"

namespace ingot::app {

absl::Status EvaluateOnce(const std::string& command, const EvalOptions& options, const RunDir& dir, EmbeddedRun& run,
                          const std::shared_ptr<const weights::Snapshot>& snapshot,
                          const std::function<absl::Status(const v1::EvalStatusResponse&, datapool::Client&)>& report,
                          const std::function<absl::Status()>& begun) {
  scheduler::Client& scheduler = *run.clients().scheduler;
  INGOT_ASSIGN_OR_RETURN(Evaluations evaluations,
                         Evaluations::Create(options, /*total_steps=*/0, /*most=*/1, scheduler, run.publisher()));
  INGOT_RETURN_IF_ERROR(run.publisher().Publish(snapshot, /*retain=*/true).status());
  INGOT_RETURN_IF_ERROR(scheduler.MarkVersionLive(0));
  INGOT_RETURN_IF_ERROR(evaluations.Start(0));
  INGOT_RETURN_IF_ERROR(run.StartAgents());
  INGOT_RETURN_IF_ERROR(dir.DropReplaced());
  if (begun) INGOT_RETURN_IF_ERROR(begun());
  const RetryPolicy retry{.stop = &StopFlag()};
  Progress progress(command);
  INGOT_RETURN_IF_ERROR(evaluations.Finish(
      [&](int64_t, const v1::EvalStatusResponse& result) {
        progress.Clear();
        return report(result, *run.clients().pool);
      },
      retry, run.clients().engine_fault,
      [&](const std::string& text) {
        progress.Clear();
        std::fprintf(stderr, "%s\n", base::Printable(text).c_str());
      },
      [&](const v1::EvalStatusResponse& so_far) {
        const std::string failed =
            so_far.failed() > 0 ? absl::StrCat("episodes, ", so_far.failed(), " failed") : "episodes";
        progress.Show(failed, so_far.finished() + so_far.failed(), so_far.total());
      }));
  run.Stop();
  return absl::OkStatus();
}

void UseModelFolder(const std::string& folder, RunConfig& config) {
  config.model.path = folder;
  // The folder may have adapters even if the configured run would not train any, and vice versa.
  config.model.lora = ModelOptions().lora;
  config.model.lora_init = ModelOptions().lora_init;
  config.model.chat_format.clear();
  config.model.chat_template.clear();
}

}  // namespace ingot::app
