// Implements ExternalEngine's versions that are adapters of one base model.
#include <utility>

#include "base/log.h"
#include "base/waits.h"
#include "engines/external/external_engine.h"

namespace ingot::engines {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr int kAdapterTries = 2;  // maximum number of attempts to load a version

}  // namespace

absl::Status ExternalEngine::OfferBase(const Wanted& wanted) {
  if (!starts_server() || has_start_model_) return absl::OkStatus();
  base::MutexLock update_lock(update_mu_);
  if (start_model_ != nullptr) return absl::OkStatus();
  INGOT_ASSIGN_OR_RETURN(start_model_, wanted.make(accepted_.snapshot));
  has_start_model_ = true;
  return absl::OkStatus();
}

absl::Status ExternalEngine::CheckBase(const std::shared_ptr<const weights::Snapshot>& snapshot) {
  if (!starts_server() || BaseChecksum(*snapshot) == BaseChecksum(*start_model_)) return absl::OkStatus();
  start_model_ = snapshot;
  exchange_->RemoveStart();
  restart_wanted_ = true;
  const absl::Status other = absl::UnavailableError(absl::StrCat(
      "version ", snapshot->version(), " is an adapter of another base model: the server is restarted with it"));
  Lose(other, /*server_gone=*/true);
  return other;
}

bool ExternalEngine::MayRetain(int64_t version) const {
  base::MutexLock lock(mu_);
  return adapters_.retained(version) < options_.max_retained_versions;
}

bool ExternalEngine::PlaceHeld(const v1::Manifest& target, weights::Place place) {
  const std::string label = VersionLabel(target.version(), target.checksum());
  base::MutexLock lock(mu_);
  const AdapterVersions::Adapter* held = adapters_.Find(target.version());
  if (held == nullptr || held->version.label != label || !live_.has_value()) return false;
  if (place != weights::Place::kLive) adapters_.Retain(label);
  return place == weights::Place::kBeside || live_->label == label;
}

void ExternalEngine::PlaceLoaded(const Written& version, weights::Place place) {
  const int64_t now = clock_.UnixNanos();
  {
    base::MutexLock lock(mu_);
    adapters_.Add(version, now);
    if (place != weights::Place::kLive) adapters_.Retain(version.label);
    server_.set_write_ms(version.write_ms);
    if (place == weights::Place::kBeside) return;
    adapters_.SetLive(version.label);
    live_ = Live{version.snapshot->version(), version.snapshot->checksum(), version.label, now};
    sending_ = true;
    lost_ = suspect_ = false;
  }
  SendWaiting();
}

absl::StatusOr<v1::UpdateWeightsResponse> ExternalEngine::TakeAdapter(const Wanted& wanted) {
  const v1::Manifest& target = wanted.target;
  INGOT_RETURN_IF_ERROR(OfferBase(wanted));
  INGOT_RETURN_IF_ERROR(AwaitReady(wanted.cancelled));
  base::MutexLock update_lock(update_mu_);
  if (wanted.cancelled()) return absl::CancelledError("the sender canceled the update");
  weights::Place place = wanted.place;
  v1::UpdateWeightsResponse response;
  response.set_version(target.version());
  if (place != weights::Place::kLive && !MayRetain(target.version())) {
    if (place == weights::Place::kBeside) {
      return absl::ResourceExhaustedError(absl::StrCat("cannot retain version ", target.version(),
                                                       ": the engine already retains rollout.max_retained_versions (",
                                                       options_.max_retained_versions, ") versions"));
    }
    response.set_not_retained(true);
    place = weights::Place::kLive;
  }
  if (PlaceHeld(target, place)) return response;  // a sender that did not get the response retries
  const nanoseconds start = clock_.Now();
  INGOT_ASSIGN_OR_RETURN(std::shared_ptr<const weights::Snapshot> snapshot, wanted.make(accepted_.snapshot));
  INGOT_RETURN_IF_ERROR(CheckBase(snapshot));
  INGOT_ASSIGN_OR_RETURN(const Written version, Write(std::move(snapshot)));
  const nanoseconds written = clock_.Now();
  INGOT_RETURN_IF_ERROR(InstallAdapter(version));
  if (place != weights::Place::kBeside) accepted_ = version;
  PlaceLoaded(version, place);
  UnloadUnused();
  response.set_fetch_ms(Millis(wanted.fetch));
  response.set_apply_ms(Millis(written - start));
  response.set_wait_ms(Millis(clock_.Now() - written));
  return response;
}

absl::Status ExternalEngine::InstallAdapter(const Written& version) {
  absl::Status loaded = TryAdapter(version);
  for (int tries = 0; loaded.ok() && tries < kAdapterTries; ++tries) {
    const absl::Status verified = LoadAdapter(version);
    if (verified.ok()) {
      failed_loads_.erase(version.label);
      return verified;
    }
    if (tries + 1 == kAdapterTries || !absl::IsDataLoss(verified)) loaded = verified;
    INGOT_LOG(warn, "rollout: {}", std::string(verified.message()));
  }
  if (absl::IsFailedPrecondition(loaded)) SetFault(loaded);
  CountFailedLoad(version, loaded);
  return absl::UnavailableError(
      absl::StrCat("the server does not have version ", version.snapshot->version(), ": ", loaded.message()));
}

// A server that was lost without a restart still has its adapters, and SGLang does not replace them.
absl::Status ExternalEngine::CallLoadAdapter(const std::string& name, const std::string& dir) {
  const milliseconds timeout = seconds(external_.load_s);
  const absl::Status loaded = control_.Call(api_->LoadAdapter(name, dir), timeout).status();
  if (!absl::IsInvalidArgument(loaded)) return loaded;
  if (!control_.Call(api_->UnloadAdapter(name), timeout).ok()) return loaded;
  return control_.Call(api_->LoadAdapter(name, dir), timeout).status();
}

absl::Status ExternalEngine::LoadAdapter(const Written& version) {
  const milliseconds timeout = seconds(external_.load_s);
  const nanoseconds start = clock_.Now();
  const std::string name = AdapterName(version.label);
  INGOT_RETURN_IF_ERROR(CallLoadAdapter(name, version.dir));
  const nanoseconds loaded = clock_.Now();
  absl::StatusOr<ScoreDifference> found = ScoreDifference();
  if (verifier_.has_value()) {
    found = verifier_->VerifySamples(control_, version.snapshot, UnusedWeightsOf(version.label), timeout);
    if (!found.ok()) (void)control_.Call(api_->UnloadAdapter(name), timeout);  // so that it can be loaded again
  }
  base::MutexLock lock(mu_);
  server_.set_load_ms(Millis(loaded - start));
  server_.set_verify_ms(Millis(clock_.Now() - loaded));
  if (absl::IsDataLoss(found.status())) server_.set_refused(server_.refused() + 1);
  INGOT_RETURN_IF_ERROR(found.status());
  if (!verifier_.has_value()) return absl::OkStatus();
  server_.set_verify_diff_mean(found->worst_mean());
  server_.set_verify_diff_max(found->max);
  server_.set_verified(server_.verified() + 1);
  return absl::OkStatus();
}

// After a wrong load, the server's cache has the verification's prompts under the same name and salt.
ServedWeights ExternalEngine::UnusedWeightsOf(const std::string& label) const {
  ServedWeights weights = WeightsOf(label);
  base::MutexLock lock(mu_);
  if (!weights.salt.empty() && server_.refused() > 0) absl::StrAppend(&weights.salt, "-", server_.refused());
  return weights;
}

// Finds factors that the server does not load. In the first versions, B is nearly zero, so they would go unnoticed.
absl::Status ExternalEngine::TryAdapter(const Written& version) {
  if (!verifier_.has_value() || !external_.trial_load || workers_.single().tried) return absl::OkStatus();
  const milliseconds timeout = seconds(external_.load_s);
  INGOT_ASSIGN_OR_RETURN(const std::shared_ptr<const weights::Snapshot> other, verifier_->Perturb(version.snapshot));
  INGOT_ASSIGN_OR_RETURN(std::shared_ptr<const weights::Snapshot> mixed, WithFactorsOf(*version.snapshot, *other));
  INGOT_ASSIGN_OR_RETURN(const Written trial, Write(std::move(mixed)));
  const std::string name = AdapterName(trial.label);
  absl::Status tried = CallLoadAdapter(name, trial.dir);
  if (tried.ok()) {
    tried =
        verifier_->VerifyTrialSamples(control_, trial.snapshot, version.snapshot, UnusedWeightsOf(trial.label), timeout)
            .status();
    (void)control_.Call(api_->UnloadAdapter(name), timeout);
  }
  exchange_->Remove(trial.dir);
  workers_.single().tried = tried.ok();
  return tried;
}

void ExternalEngine::RestoreAdapters() {
  base::MutexLock update_lock(update_mu_);
  std::vector<AdapterVersions::Adapter> held;
  {
    base::MutexLock lock(mu_);
    if (stopping_ || !ready_ || !aside_.ok()) return;
    held = adapters_.Held();
  }
  for (const AdapterVersions::Adapter& adapter : held) {
    if (adapter.loaded) continue;
    const base::Wait wait(absl::StrCat(control_.name(), ": its adapters are being reloaded"));
    Written version = adapter.version;
    const int64_t number = version.snapshot->version();
    const absl::StatusOr<std::string> dir = exchange_->Write(version.snapshot);  // unless the server still has it
    if (dir.ok()) version.dir = *dir;
    const absl::Status restored = dir.ok() ? InstallAdapter(version) : dir.status();
    if (!restored.ok()) {
      INGOT_LOG(warn, "rollout: {}", std::string(restored.message()));
      return;
    }
    const bool newest = version.label == accepted_.label;
    PlaceLoaded(version, newest ? weights::Place::kLive : weights::Place::kBeside);
    INGOT_LOG(info, "rollout: {} has version {} again", api_->name(), number);
  }
  UnloadUnused();
}

void ExternalEngine::UnloadUnused() {
  std::vector<Written> unused;
  {
    base::MutexLock lock(mu_);
    if (!ready_) return;
    unused = adapters_.TakeUnused();
  }
  for (const Written& version : unused) {
    const absl::Status unloaded =
        control_.Call(api_->UnloadAdapter(AdapterName(version.label)), seconds(external_.load_s)).status();
    if (!unloaded.ok()) INGOT_LOG(debug, "rollout: {}", std::string(unloaded.message()));
    exchange_->Remove(version.dir);
  }
}

absl::Status ExternalEngine::Release(int64_t version) {
  base::MutexLock lock(mu_);
  adapters_.Release(version);
  return absl::OkStatus();
}

}  // namespace ingot::engines
