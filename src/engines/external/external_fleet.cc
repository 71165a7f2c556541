// Implements the workers of a fleet: how they are watched, and how one joins.
#include <algorithm>

#include "base/log.h"
#include "base/printable.h"
#include "engines/external/external_engine.h"

namespace ingot::engines {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kMostDoublings = 6;  // of the checks between two attempts of a worker to join

}  // namespace

void ExternalEngine::WatchWorker(Worker& worker) {
  if (const absl::Status healthy = worker.control.Health(); !healthy.ok()) {
    if (++worker.missed_checks < kMissedChecks) return;
    worker.missed_checks = 0;
    worker.Forget();
    worker.control.Interrupt();  // a swap may wait for it
    INGOT_LOG(warn, "rollout: {} is gone, and requests move to the other workers: {}", worker.control.name(),
              std::string(healthy.message()));
    if (!workers_.AnyJoined()) LoseLastJoined(healthy);
    return;
  }
  worker.missed_checks = 0;
  worker.healthy_at = clock_.Now();
  if (!update_mu_.TryLock()) return;  // a swap changes the label, and may wait for a worker that is checked next
  const absl::StatusOr<std::string> label = worker.control.Label();
  if (label.ok()) CheckJoined(worker, *label);  // otherwise, the next check of its health decides
  update_mu_.Unlock();
  if (!label.ok()) return;
  Restore();
  if (!worker.joined) Join(worker);
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
  worker.Forget();
  if (!workers_.AnyJoined()) LoseLastJoined(other);
}

void ExternalEngine::LoseLastJoined(const absl::Status& why) {
  const bool any_ready = workers_.AnyReady();
  {
    base::MutexLock lock(mu_);
    if (any_ready && !live_.has_value()) return;  // the first version has not arrived
    TakeBackIn();                                 // all workers have been restarted or changed
  }
  Lose(why, /*server_gone=*/!any_ready);
}

void ExternalEngine::Join(Worker& worker) {
  base::MutexLock update_lock(update_mu_);
  std::string label;
  {
    base::MutexLock lock(mu_);
    if (stopping_ || !live_.has_value() || !aside_.ok() || worker.joined || !worker.ready) return;
    label = live_->label;
  }
  if (worker.checks_until_join > 0) {
    --worker.checks_until_join;
    return;
  }
  Written version = accepted_;
  version.label = label;
  const absl::StatusOr<std::string> dir = exchange_->Write(version.snapshot);  // unless it is still there
  if (!dir.ok()) return LeaveOut(worker, dir.status());
  version.dir = *dir;
  if (const absl::Status joined = TryJoin(worker, version); !joined.ok()) {
    worker.failed_joins = std::min(worker.failed_joins + 1, kMostDoublings);
    worker.checks_until_join = 1 << worker.failed_joins;
    return LeaveOut(worker, joined);
  }
  worker.failed_joins = 0;
  worker.left_out = false;
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

bool ExternalEngine::LeaveOutFailing(const std::vector<FailedWorker>& failing) {
  bool all = !failing.empty();
  for (const auto& [worker, why] : failing) {
    ServerControl& control = worker->control;
    // From here on, none of its tokens is recorded.
    if (!control.Call(api_->SetLabel(JoiningLabel("left-out")), seconds(external_.load_s)).ok()) {
      all = false;
      continue;
    }
    INGOT_LOG(warn, "rollout: {} is left out of the fleet, whose other workers continue: {}", control.name(),
              std::string(why.message()));
    worker->joined = worker->tried = false;
    worker->left_out = true;
  }
  return all;
}

// The keeper tries again.
void ExternalEngine::LeaveOut(Worker& worker, const absl::Status& why) {
  const std::string problem(why.message());
  if (worker.problem == problem) return;
  worker.problem = problem;
  INGOT_LOG(warn, "rollout: {} is left out of the fleet until this is mended: {}", worker.control.name(),
            worker.problem);
}

}  // namespace ingot::engines
