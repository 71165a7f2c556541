#include "app/training/evaluation.h"

#include <chrono>
#include <thread>

#include "absl/strings/str_join.h"
#include "base/log.h"
#include "base/retry.h"
#include "base/waits.h"
#include "dataset/tasks.h"

namespace ingot::app {
namespace {

constexpr std::chrono::seconds kReportWaitAfter{20};

}  // namespace

absl::StatusOr<Evaluations> Evaluations::Create(const EvalOptions& options, int64_t total_steps, int64_t most,
                                                scheduler::Client& scheduler, weights::Publisher& publisher) {
  Evaluations evaluations(options, total_steps, most, scheduler, publisher);
  dataset::TaskSource all;
  for (const auto& [name, files] : options.Files()) {
    INGOT_ASSIGN_OR_RETURN(dataset::TaskSource set, dataset::ReadTasks(files));
    dataset::AddTaskSet(name, std::move(set), all);
  }
  evaluations.tasks_ = std::move(all.tasks);
  return evaluations;
}

bool Evaluations::Due(int64_t version) const {
  if (tasks_.empty()) return false;
  if (version == total_steps_) return true;
  if (version == 0 && options_.at_start) return true;
  return options_.every_versions > 0 && version % options_.every_versions == 0;
}

std::vector<int64_t> Evaluations::DueBefore(int64_t first) const {
  std::vector<int64_t> due;
  if (first > 0 && Due(0)) due.push_back(0);
  const int64_t step = options_.every_versions;
  for (int64_t version = step; version < first && !tasks_.empty() && step > 0; version += step) due.push_back(version);
  return due;
}

absl::Status Evaluations::OnLive(int64_t version, bool retained) {
  if (!Due(version) || reported_.contains(version)) return absl::OkStatus();
  if (version != total_steps_ && !HasRoom()) {
    INGOT_LOG(warn, "version {} is not evaluated: {} evaluations are running, the most at a time", version,
              running_.size());
    return absl::OkStatus();
  }
  if (version != total_steps_ && !retained) {
    INGOT_LOG(warn, "version {} is not evaluated: not every engine retains it", version);
    return absl::OkStatus();
  }
  return LeaveOutIfRejected(version, Start(version));
}

absl::Status Evaluations::Start(int64_t version) {
  running_.insert(version);
  return RequestStart(version);
}

absl::Status Evaluations::RequestStart(int64_t version) {
  v1::StartEvalRequest request;
  request.set_version(version);
  request.set_avg_n(options_.avg_n);
  request.mutable_tasks()->Add(tasks_.begin(), tasks_.end());
  return base::Annotate(DropTransient(scheduler_->StartEval(request).status()), "starting an evaluation");
}

absl::Status Evaluations::LeaveOutIfRejected(int64_t version, const absl::Status& asked) {
  if (!absl::IsInvalidArgument(asked) && !absl::IsAlreadyExists(asked)) return asked;
  INGOT_LOG(warn, "version {} is not evaluated: {}", version, asked.ToString());
  running_.erase(version);
  Release(version);
  return absl::OkStatus();
}

absl::Status Evaluations::DropTransient(const absl::Status& status) {
  if (!base::IsTransient(status)) return status;
  if (status != delay_) INGOT_LOG(warn, "retrying evaluations: {}", status.ToString());
  delay_ = status;
  return absl::OkStatus();
}

absl::Status Evaluations::Poll(const Report& report) {
  const std::vector<int64_t> running(running_.begin(), running_.end());
  for (const int64_t version : running) {
    const absl::StatusOr<v1::EvalStatusResponse> result = scheduler_->EvalStatus(version);
    if (!result.ok() || !result->done()) {
      // The evaluation was not started, or the scheduler restarted and lost it.
      INGOT_RETURN_IF_ERROR(absl::IsNotFound(result.status()) ? LeaveOutIfRejected(version, RequestStart(version))
                                                              : DropTransient(result.status()));
      continue;
    }
    INGOT_RETURN_IF_ERROR(report(version, *result));
    running_.erase(version);
    reported_.insert(version);
    Release(version);
  }
  return absl::OkStatus();
}

absl::Status Evaluations::Resume(int64_t first, std::set<int64_t> reported, const RetryPolicy& retry) {
  reported_ = std::move(reported);
  const auto engines = std::ssize(publisher_->engines());
  for (const auto& [version, holding] : publisher_->HeldVersions()) {
    if (version == first) continue;  // will be published again
    if (version < first && Due(version) && holding == engines && !reported_.contains(version)) {
      running_.insert(version);  // Poll starts it if it is not running
    } else {
      Release(version);
    }
  }
  std::vector<int64_t> without;
  for (const int64_t version : DueBefore(first)) {
    if (running_.contains(version) || reported_.contains(version)) continue;
    absl::StatusOr<v1::EvalStatusResponse> result;
    INGOT_RETURN_IF_ERROR(Persist(retry, absl::StrCat("asking for the evaluation of version ", version), [&] {
      result = scheduler_->EvalStatus(version);
      return absl::IsNotFound(result.status()) ? absl::OkStatus() : result.status();
    }));
    if (result.ok() && result->done()) {
      running_.insert(version);
    } else {
      without.push_back(version);
    }
  }
  if (!without.empty()) {
    INGOT_LOG(warn,
              "versions {} have no evaluation in the record and will not get one: the engines no longer hold them",
              absl::StrJoin(without, ", "));
  }
  return absl::OkStatus();
}

void Evaluations::Release(int64_t version) {
  if (retains_afterwards_ != nullptr && retains_afterwards_(version)) return;
  if (const absl::Status released = publisher_->Release(version); !released.ok()) {
    INGOT_LOG(warn, "version {} is not released by every engine: {}", version, released.ToString());
  }
}

absl::Status Evaluations::Finish(const Report& report, const RetryPolicy& retry,
                                 const std::function<absl::Status()>& fault,
                                 const std::function<void(const std::string&)>& on_line,
                                 const std::function<void(const v1::EvalStatusResponse&)>& watch) {
  constexpr std::chrono::milliseconds kPause{20}, kWatchEvery{500};
  const std::chrono::nanoseconds start = retry.clock->Now();
  const base::Wait wait("the end of evaluations", base::WaitKind::kWork);
  auto last_report = start, watched = start;
  while (true) {
    INGOT_RETURN_IF_ERROR(Poll(report));
    if (running_.empty()) return absl::OkStatus();
    if (retry.stopped()) return absl::CancelledError("stopped during an evaluation");
    if (fault) INGOT_RETURN_IF_ERROR(base::Annotate(fault(), "during an evaluation"));
    if (const auto now = retry.clock->Now(); watch != nullptr && now - watched >= kWatchEvery) {
      watched = now;
      const auto so_far = scheduler_->EvalStatus(*running_.begin());
      if (so_far.ok()) watch(*so_far);
    }
    if (const auto now = retry.clock->Now(); now - last_report >= kReportWaitAfter) {
      last_report = now;
      const auto so_far = scheduler_->EvalStatus(*running_.begin());
      if (so_far.ok()) {
        on_line(DescribeEvaluation(*running_.begin(), std::chrono::duration<double>(now - start).count(), *so_far));
      }
    }
    if (retry.sleep) {
      retry.sleep(kPause);
    } else {
      std::this_thread::sleep_for(kPause);
    }
  }
}

std::string DescribeEvaluation(int64_t version, double seconds, const v1::EvalStatusResponse& so_far) {
  std::string text = fmt::format("waiting for the evaluation of version {} for {:.0f} s: {} of {} episodes are done",
                                 version, seconds, so_far.finished() + so_far.failed(), so_far.total());
  if (so_far.failed() > 0) text += fmt::format(", {} of them failed", so_far.failed());
  if (so_far.finished() + so_far.failed() == 0) {
    text += "; external agents get them when they open episodes without a group";
  }
  return text;
}

}  // namespace ingot::app
