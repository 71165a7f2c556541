// Implements the thread of ExternalEngine that starts the server, watches it, and restores its weights.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/printable.h"
#include "base/waits.h"
#include "engines/external/external_engine.h"

namespace ingot::engines {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr int kFailedStarts = 5;  // in a row, until the engine gives up

}  // namespace

void ExternalEngine::Tick() {
  bool ready = false;
  {
    base::MutexLock lock(mu_);
    if (stopping_ || !fault_.ok()) return;
    ready = ready_;
  }
  if (restart_wanted_.exchange(false) && process_.has_value()) {
    INGOT_LOG(warn, "rollout: restarting {}, which does not load its weights", api_->name());
    process_->Stop();
  }
  if (starts_server() && !has_start_model_) return;
  if (starts_server() && !(process_.has_value() && process_->IsRunning())) {
    if (ready) Lose(absl::UnavailableError("the server's process has exited"), /*server_gone=*/true);
    StartServer();
    return;
  }
  for (const auto& worker : workers_.all()) TickWorker(*worker);
}

void ExternalEngine::TickWorker(Worker& worker) {
  if (!worker.ready) {
    AwaitServer(worker);
  } else if (workers_.is_fleet()) {
    WatchWorker(worker);
  } else {
    WatchServer(worker);
  }
}

void ExternalEngine::ExpireWaiting() {
  std::vector<std::shared_ptr<ExternalCall>> late;
  {
    base::MutexLock lock(mu_);
    const nanoseconds now = clock_.Now();
    std::erase_if(waiting_, [&](const std::shared_ptr<ExternalCall>& call) {
      if (now < call->deadline()) return false;
      late.push_back(call);
      return true;
    });
  }
  for (const std::shared_ptr<ExternalCall>& call : late) {
    call->Reject(absl::DeadlineExceededError(
        absl::StrCat("request ", call->request().request_id(), ": rollout.request_deadline_ms (",
                     options_.request_deadline_ms, ") passed before the request was sent to the rollout server")));
  }
}

void ExternalEngine::StartServer() {
  if (failed_starts_ >= kFailedStarts) {
    return SetFault(absl::FailedPreconditionError(absl::StrCat(
        "the server of rollout.external.command exited ", failed_starts_, " times during startup: see ", log_path_)));
  }
  ++failed_starts_;  // until it is ready
  ++starts_;
  absl::StatusOr<std::string> dir;
  {
    base::MutexLock update_lock(update_mu_);
    dir = exchange_->WriteStart(start_model_);
  }
  if (!dir.ok()) return SetFault(dir.status());
  std::map<std::string, std::string> words = command_words_;
  words["model"] = *dir;
  process_.emplace(external_.command, std::move(words), log_path_);
  if (const absl::Status started = process_->Start(); !started.ok()) return SetFault(started);
  process_claim_.Reset();
  absl::StatusOr<base::Fd> claim = ClaimServer(external_.exchange, process_->url());
  if (!claim.ok()) return SetFault(claim.status());
  process_claim_ = *std::move(claim);
  control_.set_url(process_->url());
  server_pid_ = process_->pid();
  {
    base::MutexLock lock(mu_);
    server_since_ = clock_.Now();
    server_.set_restarts(starts_ - 1);
  }
  INGOT_LOG(info, "rollout: starting {} at {}; its log is {}", api_->name(), control_.url(), log_path_);
}

bool ExternalEngine::StartTimePassed() const {
  base::MutexLock lock(mu_);
  return clock_.Now() - server_since_ >= seconds(external_.start_s);
}

void ExternalEngine::AwaitServer(Worker& worker) {
  if (const absl::Status healthy = worker.control.Health(); !healthy.ok()) {
    // If a worker of a fleet hangs, its connections stay open.
    EndSilent(worker.healthy_at, absl::UnavailableError(absl::StrCat(worker.control.name(), " is gone")));
    if (workers_.AnyReady() || !StartTimePassed()) return;
    if (!starts_server()) {
      return SetFault(absl::FailedPreconditionError(
          absl::StrCat("the server at rollout.external.url did not start within rollout.external.start_s (",
                       external_.start_s, "): ", healthy.message())));
    }
    process_->Stop();
    return;
  }
  const absl::StatusOr<LogprobKind> kind = CheckStart(worker);
  if (!kind.ok()) return OnBadStart(worker, kind.status());
  if (adapters_only_) {
    const absl::Status labeled = control_.Call(api_->SetLabel(base_label_), seconds(external_.load_s)).status();
    if (!labeled.ok()) {
      worker.ready = false;
      INGOT_LOG(warn, "rollout: {}", std::string(labeled.message()));
      return;
    }
  }
  failed_starts_ = worker.missed_checks = worker.failed_joins = worker.checks_until_join = 0;
  {
    base::MutexLock lock(mu_);
    ready_ = true;
    logprobs_ = *kind;
    changed_.SignalAll();
  }
  INGOT_LOG(info, "rollout: {} is ready ({} log-probs){}{}", worker.control.name(),
            *kind == LogprobKind::kRaw ? "raw" : "processed", api_->caveat().empty() ? "" : "; Ingot's client was ",
            api_->caveat());
  Restore();
  if (workers_.is_fleet()) Join(worker);
}

absl::StatusOr<LogprobKind> ExternalEngine::CheckStart(Worker& worker) {
  base::MutexLock update_lock(update_mu_);  // the check resumes the server, which must not be amid a load
  if (workers_.is_fleet()) {
    // A worker that was lost amid a load may have parts of other weights under a label of Ingot.
    INGOT_RETURN_IF_ERROR(
        worker.control.Call(api_->SetLabel(JoiningLabel("start")), seconds(external_.load_s)).status());
  }
  INGOT_ASSIGN_OR_RETURN(const LogprobKind kind,
                         worker.control.CheckStart(model_, external_.swap, seconds(external_.start_s)));
  base::MutexLock lock(mu_);
  if (!workers_.AnyReady() || logprobs_ == kind) {
    worker.ready = true;
    return kind;
  }
  return absl::FailedPreconditionError(absl::StrCat(
      worker.control.name(), " reports other log-probs than the fleet's other workers: start it with the same flags"));
}

void ExternalEngine::OnBadStart(Worker& worker, const absl::Status& why) {
  if (workers_.AnyReady()) return LeaveOut(worker, why);
  const bool final = absl::IsFailedPrecondition(why) || absl::IsInvalidArgument(why);
  if (final) return SetFault(why);
  INGOT_LOG(warn, "rollout: {}", std::string(why.message()));
  if (StartTimePassed()) SetFault(why);
}

void ExternalEngine::WatchServer(Worker& worker) {
  if (const absl::Status healthy = worker.control.Health(); !healthy.ok()) {
    if (++worker.missed_checks < kMissedChecks) return;
    worker.missed_checks = 0;
    Lose(healthy, /*server_gone=*/true);
    if (process_.has_value()) process_->Stop();
    return;
  }
  worker.missed_checks = 0;
  {
    base::MutexLock update_lock(update_mu_);
    CheckLabel(worker);
  }
  Restore();
}

// A server that someone else updated or restarted has other weights than its requests assume.
void ExternalEngine::CheckLabel(Worker& worker) {
  std::string expected;
  {
    base::MutexLock lock(mu_);
    if (!live_.has_value()) return;
    expected = adapters_only_ ? base_label_ : live_->label;
  }
  const absl::StatusOr<std::string> label = worker.control.Label();
  if (!label.ok()) return;  // the next check of its health decides
  bool suspect = false;
  {
    base::MutexLock lock(mu_);
    suspect = std::exchange(suspect_, false);
  }
  if (*label == expected && !suspect) return;
  // It may be another process, which was started with other settings and does not have the base's label.
  Lose(absl::UnavailableError(absl::StrCat("the server's weights have the label '", base::Shown(*label),
                                           "', but Ingot loaded '", expected,
                                           "': someone else changed or restarted the server")),
       /*server_gone=*/true);
}

void ExternalEngine::TakeBackIn() {
  aside_ = absl::OkStatus();
  aside_wait_.reset();
}

void ExternalEngine::Restore() {
  if (adapters_only_) return RestoreAdapters();
  {
    base::MutexLock lock(mu_);
    if (live_.has_value()) return;  // otherwise, it would wait for a swap
  }
  base::MutexLock update_lock(update_mu_);
  {
    base::MutexLock lock(mu_);
    if (stopping_ || !ready_ || live_.has_value() || !aside_.ok()) return;
  }
  if (accepted_.snapshot == nullptr) return;  // the trainer sends the first version
  const base::Wait wait(absl::StrCat(workers_.name(), ": its weights are being reloaded"));
  const int64_t number = accepted_.snapshot->version();
  Written version = accepted_;
  const absl::StatusOr<std::string> dir = exchange_->Write(version.snapshot);  // unless the server still has it
  if (dir.ok()) version.dir = *dir;
  v1::SwapTimes times;
  times.set_version(number);
  times.set_checksum(accepted_.snapshot->checksum());
  const absl::Status restored = dir.ok() ? Install(version, [] { return false; }, times) : dir.status();
  if (!restored.ok()) {
    INGOT_LOG(warn, "rollout: {}", std::string(restored.message()));
  } else {
    INGOT_LOG(info, "rollout: {} runs version {} again", api_->name(), number);
  }
}

void ExternalEngine::SetFault(const absl::Status& why) {
  INGOT_LOG(error, "rollout: {}", std::string(why.message()));
  {
    base::MutexLock lock(mu_);
    fault_ = absl::FailedPreconditionError(why.message());  // final, so it is not retried
    sending_ = false;
    changed_.SignalAll();
  }
  EndAll(why);
}

}  // namespace ingot::engines
