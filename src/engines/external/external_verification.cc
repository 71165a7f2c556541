// Implements ExternalEngine's trial loads and verification: whether a server samples from the weights that it has loaded.
#include <utility>

#include "engines/external/external_engine.h"

namespace ingot::engines {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

absl::StatusOr<std::optional<ExternalEngine::Written>> ExternalEngine::WriteTrial(const Written& version) {
  if (!verifier_.has_value() || !external_.trial_load) return std::nullopt;
  INGOT_ASSIGN_OR_RETURN(std::shared_ptr<const weights::Snapshot> other, verifier_->Perturb(version.snapshot));
  return Write(std::move(other));
}

absl::Status ExternalEngine::TryLoading(const Written& version) {
  if (workers_.AllTried()) return absl::OkStatus();
  INGOT_ASSIGN_OR_RETURN(const std::optional<Written> trial, WriteTrial(version));
  if (!trial.has_value()) return absl::OkStatus();
  const WeightVerifier& verifier = *verifier_;
  const absl::Status tried = workers_.ForMembers(
      [&](Worker& worker) { return worker.tried ? absl::OkStatus() : TryWorker(worker, verifier, *trial, version); });
  exchange_->Remove(trial->dir);
  return tried;
}

absl::Status ExternalEngine::TryWorker(Worker& worker, const WeightVerifier& verifier, const Written& trial,
                                       const Written& version) {
  const milliseconds timeout = seconds(external_.load_s);
  ServerControl& control = worker.control;
  absl::Status tried = control.LoadAndLabel(trial.dir, trial.label, timeout);
  if (tried.ok()) tried = control.Call(api_->Resume(), timeout).status();
  if (tried.ok()) {
    const ServedWeights served = WeightsOf(trial.label);
    tried = verifier.VerifyTrial(control, *trial.snapshot, served, trial.scores, version.scores, timeout).status();
  }
  const absl::Status paused = control.Pause(SwapMode::kAbort, timeout);
  INGOT_RETURN_IF_ERROR(tried);
  INGOT_RETURN_IF_ERROR(paused);
  worker.tried = true;
  return absl::OkStatus();
}

absl::Status ExternalEngine::ResumeAndVerify(const Written& version, const std::string& label) {
  const weights::Snapshot& snapshot = *version.snapshot;
  {
    base::MutexLock lock(mu_);
    labels_[label] = snapshot.version();
    candidate_ = Live{snapshot.version(), snapshot.checksum(), label, clock_.UnixNanos()};
    lost_ = false;  // new requests wait for `sending_`
    server_.set_verify_ms(0);
  }
  INGOT_RETURN_IF_ERROR(ResumeAll());
  if (!verifier_.has_value()) return absl::OkStatus();
  const nanoseconds start = clock_.Now();
  INGOT_ASSIGN_OR_RETURN(const ScoreDifference found, VerifyAll(version, label));
  base::MutexLock lock(mu_);
  server_.set_verify_ms(Millis(clock_.Now() - start));
  server_.set_verify_diff_mean(found.worst_mean());
  server_.set_verify_diff_max(found.max);
  server_.set_verified(server_.verified() + 1);
  return absl::OkStatus();
}

absl::Status ExternalEngine::ResumeAll() {
  return workers_.ForMembers(
      [&](Worker& worker) { return worker.control.Call(api_->Resume(), seconds(external_.load_s)).status(); });
}

absl::StatusOr<ScoreDifference> ExternalEngine::VerifyAll(const Written& version, const std::string& label) {
  const WeightVerifier& verifier = *verifier_;
  base::Mutex mu;
  ScoreDifference worst;
  INGOT_RETURN_IF_ERROR(workers_.ForMembers([&](Worker& worker) -> absl::Status {
    INGOT_ASSIGN_OR_RETURN(const ScoreDifference found,
                           verifier.Verify(worker.control, *version.snapshot, WeightsOf(label), version.scores,
                                           seconds(external_.load_s)));
    base::MutexLock lock(mu);
    if (found.max >= worst.max) worst = found;
    return absl::OkStatus();
  }));
  return worst;
}

absl::Status ExternalEngine::TakeBack(const std::string& label, const absl::Status& why) {
  {
    base::MutexLock lock(mu_);
    labels_.erase(label);  // none of its tokens is recorded
    candidate_.reset();
    live_.reset();
    lost_ = true;
    server_.set_refused(server_.refused() + (absl::IsDataLoss(why) ? 1 : 0));
  }
  EndAll(absl::UnavailableError(why.message()));
  return workers_.ForMembers(
      [&](Worker& worker) { return worker.control.Pause(SwapMode::kAbort, seconds(external_.load_s)); });
}

}  // namespace ingot::engines
