// Implements ExternalEngine's weight changes.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "engines/external/external_engine.h"

namespace ingot::engines {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr int kLoadTries = 3;    // maximum number of attempts to load a version
constexpr int kRefusals = 2;     // attempts after which the log-probs may differ
constexpr int kFailedLoads = 3;  // attempts at a version until the engine gives up
constexpr milliseconds kReadyPoll{100};
constexpr milliseconds kLongestDrain = std::chrono::hours(24);

absl::Status GivenUp(const v1::Manifest& target) {
  return absl::CancelledError(
      absl::StrCat("the sender canceled the update to version ", target.version(), " before it was applied"));
}

}  // namespace

absl::StatusOr<int64_t> ExternalEngine::LiveVersion() {
  base::MutexLock lock(mu_);
  return live_.has_value() && aside_.ok() ? live_->version : -1;
}

absl::StatusOr<std::vector<weights::HeldVersion>> ExternalEngine::HeldVersions() {
  base::MutexLock lock(mu_);
  if (stopping_) return ShuttingDown();
  std::vector<weights::HeldVersion> all;
  if (!live_.has_value() || !aside_.ok()) return all;
  all.push_back({live_->version, live_->checksum});
  for (const AdapterVersions::Adapter& held : adapters_.Held()) {
    const weights::Snapshot& snapshot = *held.version.snapshot;
    if (held.loaded && snapshot.version() != live_->version) all.push_back({snapshot.version(), snapshot.checksum()});
  }
  return all;
}

absl::StatusOr<v1::UpdateWeightsResponse> ExternalEngine::UpdateUnless(const weights::EncodedDelta& delta,
                                                                       const std::function<bool()>& cancelled) {
  const weights::Place place = delta.header.beside()   ? weights::Place::kBeside
                               : delta.header.retain() ? weights::Place::kLiveRetained
                                                       : weights::Place::kLive;
  return TakeUpdate({.target = delta.header.target(),
                     .place = place,
                     .make = [&](const auto& base) { return weights::Apply(base, delta, codec_); },
                     .cancelled = cancelled,
                     .fetch = delta.fetch});
}

absl::StatusOr<v1::UpdateWeightsResponse> ExternalEngine::Share(
    const std::shared_ptr<const weights::Snapshot>& snapshot, weights::Place place) {
  const std::function<bool()> never = [] { return false; };
  return TakeUpdate(
      {.target = snapshot->manifest(),
       .place = place,
       .make = [&](const auto&) -> absl::StatusOr<std::shared_ptr<const weights::Snapshot>> { return snapshot; },
       .cancelled = never,
       .fetch = nanoseconds(0)});
}

absl::Status ExternalEngine::AwaitReady(const std::function<bool()>& cancelled) {
  base::MutexLock lock(mu_);
  while (true) {
    if (stopping_) return ShuttingDown();
    INGOT_RETURN_IF_ERROR(fault_);
    if (ready_ && aside_.ok()) return absl::OkStatus();
    if (cancelled())
      return absl::CancelledError("the sender canceled the update while it waited for the rollout server");
    clock_.WaitUntil(changed_, mu_, clock_.Now() + kReadyPoll);
  }
}

absl::StatusOr<v1::UpdateWeightsResponse> ExternalEngine::TakeUpdate(const Wanted& wanted) {
  const v1::Manifest& target = wanted.target;
  if (adapters_only_) return TakeAdapter(wanted);
  if (wanted.place == weights::Place::kBeside) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot retain version ", target.version(), ": ", api_->name(),
                     " holds one version of full weights; train adapters (trainer.lora), or use rollout.engine: "
                     "ingot"));
  }
  INGOT_RETURN_IF_ERROR(AwaitReady(wanted.cancelled));
  base::MutexLock update_lock(update_mu_);
  if (wanted.cancelled()) return GivenUp(target);
  v1::UpdateWeightsResponse response;
  response.set_version(target.version());
  response.set_not_retained(wanted.place == weights::Place::kLiveRetained);
  if (IsLive(target)) return response;  // a sender that did not get the response retries
  const nanoseconds start = clock_.Now();
  INGOT_ASSIGN_OR_RETURN(std::shared_ptr<const weights::Snapshot> snapshot, wanted.make(accepted_.snapshot));
  INGOT_ASSIGN_OR_RETURN(const Written version, Write(std::move(snapshot)));
  v1::SwapTimes times;
  times.set_version(target.version());
  times.set_checksum(target.checksum());
  times.set_fetch_ms(Millis(wanted.fetch));
  times.set_apply_ms(Millis(clock_.Now() - start));
  INGOT_RETURN_IF_ERROR(Install(version, wanted.cancelled, times));
  response.set_fetch_ms(times.fetch_ms());
  response.set_apply_ms(times.apply_ms());
  response.set_wait_ms(times.wait_ms());
  response.set_pause_ms(times.pause_ms());
  return response;
}

absl::StatusOr<ExternalEngine::Written> ExternalEngine::Write(std::shared_ptr<const weights::Snapshot> snapshot) {
  const nanoseconds start = clock_.Now();
  Written version;
  version.label = VersionLabel(snapshot->version(), snapshot->checksum());
  INGOT_ASSIGN_OR_RETURN(version.dir, exchange_->Write(snapshot));
  version.write_ms = Millis(clock_.Now() - start);
  if (verifier_.has_value() && !adapters_only_) {
    INGOT_ASSIGN_OR_RETURN(version.scores, verifier_->Expect(snapshot));
  }
  version.snapshot = std::move(snapshot);
  return version;
}

bool ExternalEngine::IsLive(const v1::Manifest& target) const {
  base::MutexLock lock(mu_);
  return live_.has_value() && live_->version == target.version() && live_->checksum == target.checksum();
}

absl::Status ExternalEngine::Install(const Written& version, const std::function<bool()>& cancelled,
                                     v1::SwapTimes& times) {
  const int64_t number = version.snapshot->version();
  const nanoseconds start = clock_.Now();
  INGOT_RETURN_IF_ERROR(PauseServer(cancelled));
  const nanoseconds paused = clock_.Now();
  // From here on, the server may have part of the new weights, so it is resumed only once it has all of them.
  absl::Status loaded = TryLoading(version);
  if (!loaded.ok() && LeaveOutFailing(workers_.Failing())) loaded = TryLoading(version);
  if (absl::IsFailedPrecondition(loaded)) SetFault(loaded);
  if (loaded.ok()) loaded = LoadWithRetries(version);
  if (!loaded.ok()) {
    Lose(base::Annotate(loaded, absl::StrCat("version ", number)), /*server_gone=*/false);
    CountFailedLoad(version, loaded);
    return absl::UnavailableError(absl::StrCat("the server did not load version ", number,
                                               " and stays paused until it does: ", loaded.message()));
  }
  workers_.SetJoined();
  exchange_->KeepOnly(version.dir, accepted_.dir);
  accepted_ = version;
  std::erase_if(failed_loads_, [number](const auto& failed) { return failed.second.version <= number; });
  times.set_wait_ms(Millis(paused - start));
  times.set_pause_ms(Millis(clock_.Now() - paused));
  {
    base::MutexLock lock(mu_);
    if (stopping_) return ShuttingDown();
    if (!candidate_.has_value())
      return absl::UnavailableError("the rollout server exited while it was loading the weights");
    live_ = *std::exchange(candidate_, std::nullopt);
    sending_ = true;
    suspect_ = false;
    swapped_in_ = times;
    swapped_at_ = clock_.Now();
    server_.set_write_ms(version.write_ms);
    server_.set_pause_ms(times.wait_ms());
    server_.set_load_ms(times.pause_ms() - server_.verify_ms());
  }
  SettleAll();
  SendWaiting();
  INGOT_LOG(debug, "rollout: {} runs version {} (pause {:.0f} ms)", api_->name(), number,
            times.wait_ms() + times.pause_ms());
  return absl::OkStatus();
}

// Running requests may take as long as their deadline to drain.
std::chrono::milliseconds ExternalEngine::PauseTimeout(SwapMode mode) const {
  if (mode != SwapMode::kDrain) return seconds(external_.load_s);
  if (options_.request_deadline_ms == 0) return kLongestDrain;
  return seconds(external_.load_s) + milliseconds(options_.request_deadline_ms);
}

// After an error, the server runs as before, or has been lost.
absl::Status ExternalEngine::PauseServer(const std::function<bool()>& cancelled) {
  bool was_sending = false, has_weights = false;
  {
    base::MutexLock lock(mu_);
    if (stopping_) return ShuttingDown();
    if (!ready_) return absl::UnavailableError("the rollout server is not running; it is being restarted");
    was_sending = std::exchange(sending_, false);  // new requests wait
    has_weights = live_.has_value();
  }
  // Without a version, it has no requests to keep, and it is unknown which weights computed its prefix cache.
  const SwapMode mode = has_weights ? external_.swap : SwapMode::kAbort;
  absl::Status paused =
      workers_.ForMembers([&](Worker& worker) { return worker.control.Pause(mode, PauseTimeout(mode)); });
  if (!paused.ok() && LeaveOutFailing(workers_.Failing())) paused = absl::OkStatus();
  if (paused.ok() && cancelled()) paused = absl::CancelledError("the sender canceled the update");
  if (paused.ok()) return absl::OkStatus();
  // A server whose weights are unknown is never resumed.
  if (!has_weights) return absl::IsCancelled(paused) ? paused : absl::UnavailableError(paused.message());
  if (const absl::Status resumed = ResumeAll(); !resumed.ok()) {
    Lose(resumed, /*server_gone=*/true);
    return absl::IsCancelled(paused) ? paused : absl::UnavailableError(paused.message());
  }
  {
    base::MutexLock lock(mu_);
    sending_ = was_sending && live_.has_value() && !stopping_;  // the keeper may have lost the server in the meantime
  }
  SendWaiting();
  return absl::IsCancelled(paused) ? paused : absl::UnavailableError(paused.message());
}

// A worker that was lost before it was verified keeps the label, and its load balancer may still reach it.
std::string ExternalEngine::UnusedLabel(const Written& version) {
  if (!workers_.is_fleet()) return version.label;
  const int before = loads_[version.label]++;
  return before == 0 ? version.label : absl::StrCat(version.label, ".", before);
}

absl::Status ExternalEngine::CheckNoneLost(size_t members) const {
  if (workers_.members() >= members) return absl::OkStatus();
  return absl::UnavailableError("a worker of the fleet was lost before it was verified");
}

absl::Status ExternalEngine::LoadWithRetries(const Written& version) {
  absl::Status loaded;
  for (int tries = 0, refused = 0; tries < kLoadTries && refused < kRefusals; ++tries) {
    const std::string label = UnusedLabel(version);
    const size_t members = workers_.members();
    loaded = workers_.ForMembers(
        [&](Worker& worker) { return worker.control.LoadAndLabel(version.dir, label, seconds(external_.load_s)); });
    if (loaded.ok()) loaded = CheckNoneLost(members);
    const bool labeled = loaded.ok();
    if (labeled) loaded = ResumeAndVerify(version, label);
    if (labeled && loaded.ok()) loaded = CheckNoneLost(members);
    if (loaded.ok()) return loaded;
    refused += labeled && absl::IsDataLoss(loaded);
    const std::vector<FailedWorker> failing = workers_.Failing();
    if (labeled) INGOT_RETURN_IF_ERROR(TakeBack(label, loaded));
    LeaveOutFailing(failing);
    INGOT_LOG(warn, "rollout: {}; the server stays paused until it has received the full version again",
              std::string(loaded.message()));
  }
  return loaded;
}

void ExternalEngine::CountFailedLoad(const Written& version, const absl::Status& why) {
  const auto [found, first] = failed_loads_.try_emplace(version.label);
  FailedLoads& failed = found->second;
  if (first) failed = {.version = version.snapshot->version(), .since = clock_.Now()};
  ++failed.count;
  const bool for_long = clock_.Now() - failed.since >= seconds(external_.start_s);
  if (failed.count >= kFailedLoads && (absl::IsDataLoss(why) || for_long)) {
    SetFault(absl::FailedPreconditionError(absl::StrCat("version ", failed.version, " was loaded ", failed.count,
                                                        " times without success: ", why.message())));
  } else if (failed.count == kFailedLoads - 1) {
    restart_wanted_ = starts_server();
  }
}

void ExternalEngine::Lose(const absl::Status& why, bool server_gone) {
  {
    base::MutexLock lock(mu_);
    sending_ = false;
    lost_ = true;
    live_.reset();
    candidate_.reset();
    suspect_ = false;
    adapters_.Lose();
    ready_ = ready_ && !server_gone;
    if (server_gone) workers_.Forget();
    if (server_gone) server_since_ = clock_.Now();
    if (server_gone) TakeBackIn();
    changed_.SignalAll();
  }
  INGOT_LOG(warn, "rollout: the server's weights cannot be used, so its requests are aborted: {}",
            std::string(why.message()));
  EndAll(absl::UnavailableError(absl::StrCat("the rollout server lost its weights: ", why.message())));
}

}  // namespace ingot::engines
