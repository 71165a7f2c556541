// Implements the workers of a fleet: how they are watched, and how one joins.
#include "base/log.h"
#include "base/printable.h"
#include "engines/external_engine.h"

namespace ingot::engines {

using std::chrono::milliseconds;
using std::chrono::seconds;

void ExternalEngine::WatchWorker(Worker& worker) {
  if (const absl::Status healthy = worker.control.Health(); !healthy.ok()) {
    if (++worker.missed_checks < kMissedChecks) return;
    worker.missed_checks = 0;
    worker.ready = worker.joined = worker.tried = false;
    INGOT_LOG(warn, "rollout: {} is gone, and requests move to the other workers: {}", worker.control.name(),
              std::string(healthy.message()));
    if (!workers_.AnyReady()) Lose(healthy, /*server_gone=*/true);
    return;
  }
  worker.missed_checks = 0;
  {
    base::MutexLock update_lock(update_mu_);  // a swap changes the label
    const absl::StatusOr<std::string> label = worker.control.Label();
    if (!label.ok()) return;  // the next check of its health decides
    CheckJoined(worker, *label);
  }
  Restore();
  Join(worker);
}

void ExternalEngine::CheckJoined(Worker& worker, const std::string& label) {
  {
    base::MutexLock lock(mu_);
    suspect_ = false;  // an answer of a worker that has not joined
    if (!live_.has_value() || !worker.joined || label == live_->label) return;
  }
  const absl::Status other = absl::UnavailableError(absl::StrCat(
      worker.control.name(), " has the weights '", base::Shown(label), "': someone else changed or restarted it"));
  INGOT_LOG(warn, "rollout: {}", std::string(other.message()));
  worker.joined = worker.tried = false;
  if (workers_.AnyJoined()) return;
  {
    base::MutexLock lock(mu_);
    TakeBackIn();
  }
  Lose(other, /*server_gone=*/false);
}

void ExternalEngine::Join(Worker& worker) {
  base::MutexLock update_lock(update_mu_);
  {
    base::MutexLock lock(mu_);
    if (stopping_ || !live_.has_value() || !aside_.ok() || worker.joined) return;
  }
  Written version = accepted_;
  const absl::StatusOr<std::string> dir = exchange_->Write(version.snapshot);  // unless it is still there
  if (!dir.ok()) return LeaveOut(worker, dir.status());
  version.dir = *dir;
  if (const absl::Status joined = TryJoin(worker, version); !joined.ok()) return LeaveOut(worker, joined);
  worker.joined = true;
  worker.problem.clear();
  INGOT_LOG(info, "rollout: {} has joined with version {}", worker.control.name(), version.snapshot->version());
}

absl::Status ExternalEngine::TryJoin(Worker& worker, const Written& version) {
  const milliseconds timeout = seconds(external_.load_s);
  ServerControl& control = worker.control;
  const std::string label = JoiningLabel(version.label);
  INGOT_RETURN_IF_ERROR(control.Call(api_->SetLabel(label), timeout).status());
  absl::Status joined = control.Pause(SwapMode::kAbort, timeout);
  if (joined.ok()) joined = TryJoiningWorker(worker, version);
  if (joined.ok()) joined = control.LoadAndLabel(version.dir, label, timeout);
  // Requests that the load balancer sends it are refused by their label, rather than left to wait.
  const absl::Status labeled = control.Call(api_->SetLabel(label), timeout).status();
  if (labeled.ok()) joined.Update(control.Call(api_->Resume(), timeout).status());
  INGOT_RETURN_IF_ERROR(joined);
  INGOT_RETURN_IF_ERROR(labeled);
  INGOT_RETURN_IF_ERROR(VerifyJoining(worker, version));
  return control.Call(api_->SetLabel(version.label), timeout).status();
}

absl::Status ExternalEngine::TryJoiningWorker(Worker& worker, const Written& version) {
  if (worker.tried) return absl::OkStatus();
  INGOT_ASSIGN_OR_RETURN(const std::optional<Written> trial, WriteTrial(version));
  if (!trial.has_value()) return absl::OkStatus();
  const absl::Status tried = TryWorker(worker, *verifier_, *trial, version);
  exchange_->Remove(trial->dir);
  return tried;
}

absl::Status ExternalEngine::VerifyJoining(Worker& worker, const Written& version) {
  if (!verifier_.has_value()) return absl::OkStatus();
  const absl::Status verified = verifier_
                                    ->Verify(worker.control, *version.snapshot, WeightsOf(version.label),
                                             version.scores, seconds(external_.load_s))
                                    .status();
  base::MutexLock lock(mu_);
  if (absl::IsDataLoss(verified)) server_.set_refused(server_.refused() + 1);
  if (verified.ok()) server_.set_verified(server_.verified() + 1);
  return verified;
}

// The keeper tries again at its next tick.
void ExternalEngine::LeaveOut(Worker& worker, const absl::Status& why) {
  const std::string problem(why.message());
  if (worker.problem == problem) return;
  worker.problem = problem;
  INGOT_LOG(warn, "rollout: {} is left out of the fleet until this is mended: {}", worker.control.name(),
            worker.problem);
}

}  // namespace ingot::engines
