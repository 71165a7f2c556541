#include "app/evaluation.h"

#include <chrono>
#include <thread>

#include "app/persist.h"
#include "base/log.h"
#include "dataset/tasks.h"

namespace ingot::app {

absl::StatusOr<Evaluations> Evaluations::Create(const EvalOptions& options, int64_t total_steps, int64_t most,
                                                scheduler::Client& scheduler, weights::Publisher& publisher) {
  Evaluations evaluations(options, total_steps, most, scheduler, publisher);
  if (!options.tasks.empty()) {
    INGOT_ASSIGN_OR_RETURN(evaluations.tasks_, dataset::LoadTasks(options.tasks));
  }
  return evaluations;
}

bool Evaluations::Due(int64_t version) const {
  if (tasks_.empty()) return false;
  if (version == total_steps_) return true;
  return options_.every_versions > 0 && version % options_.every_versions == 0;
}

absl::Status Evaluations::OnLive(int64_t version, bool retained) {
  if (!Due(version)) return absl::OkStatus();
  if (version != total_steps_ && !HasRoom()) {
    INGOT_LOG(warn, "version {} is not evaluated: {} evaluations are not done yet, as many as can run at a time",
              version, running_.size());
    return absl::OkStatus();
  }
  if (version != total_steps_ && !retained) {
    INGOT_LOG(warn, "version {} is not evaluated: not every engine retains it", version);
    return absl::OkStatus();
  }
  return Start(version);
}

absl::Status Evaluations::Start(int64_t version) {
  running_.insert(version);
  return Ask(version);
}

absl::Status Evaluations::Ask(int64_t version) {
  v1::StartEvalRequest request;
  request.set_version(version);
  request.set_avg_n(options_.avg_n);
  request.mutable_tasks()->Add(tasks_.begin(), tasks_.end());
  return base::Annotate(Later(scheduler_->StartEval(request).status()), "starting an evaluation");
}

absl::Status Evaluations::Later(const absl::Status& status) {
  if (!PassesByItself(status)) return status;
  if (status != delay_) INGOT_LOG(warn, "evaluations are asked for again: {}", status.ToString());
  delay_ = status;
  return absl::OkStatus();
}

absl::Status Evaluations::Poll(const Report& report) {
  for (auto next = running_.begin(); next != running_.end();) {
    const int64_t version = *next;
    const absl::StatusOr<v1::EvalStatusResponse> result = scheduler_->EvalStatus(version);
    if (!result.ok() || !result->done()) {
      // One that was not started yet, or that a scheduler which was started again has forgotten: it goes on with what
      // the pool holds of it.
      INGOT_RETURN_IF_ERROR(absl::IsNotFound(result.status()) ? Ask(version) : Later(result.status()));
      ++next;
      continue;
    }
    next = running_.erase(next);
    report(version, *result);
    Release(version);
  }
  return absl::OkStatus();
}

void Evaluations::Resume(int64_t first) {
  const auto engines = std::ssize(publisher_->engines());
  for (const auto& [version, holding] : publisher_->HeldVersions()) {
    if (version == first) continue;  // it is published again
    if (version < first && Due(version) && holding == engines) {
      running_.insert(version);  // Poll finds out whether it is
    } else {
      Release(version);
    }
  }
}

void Evaluations::Release(int64_t version) {
  if (kept_ != nullptr && kept_(version)) return;
  if (const absl::Status released = publisher_->Release(version); !released.ok()) {
    INGOT_LOG(warn, "version {} is not released by every engine yet: {}", version, released.ToString());
  }
}

absl::Status Evaluations::Finish(const Report& report, const std::atomic<bool>& stop) {
  while (true) {
    INGOT_RETURN_IF_ERROR(Poll(report));
    if (running_.empty()) return absl::OkStatus();
    if (stop) return absl::CancelledError("stopped during an evaluation");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace ingot::app
