#include "engines/external_engine.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace ingot::engines {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr int kLoadTries = 3;
constexpr milliseconds kReadyPoll{100};

double Millis(nanoseconds time) { return std::chrono::duration<double, std::milli>(time).count(); }

absl::Status GivenUp(const v1::Manifest& target) {
  return absl::CancelledError(
      absl::StrCat("the sender canceled the update to version ", target.version(), " before it was applied"));
}

int Connections(const rollout::EngineOptions& options) { return options.max_running + options.max_waiting + 8; }

}  // namespace

absl::Status ExternalEngine::ShuttingDown() { return absl::UnavailableError("the rollout engine is shutting down"); }

absl::StatusOr<std::unique_ptr<ExternalEngine>> ExternalEngine::Create(const rollout::EngineOptions& options,
                                                                       const ExternalOptions& external, Parts parts) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  if (parts.model.context_length < 2 || parts.model.vocab_size < 1) {
    return absl::InvalidArgumentError("the external engine needs the model's vocabulary and context length");
  }
  base::Fd claim;
  if (!external.url.empty()) {
    INGOT_ASSIGN_OR_RETURN(claim, ClaimServer(external.exchange, external.url));
  }
  std::unique_ptr<ExternalEngine> engine(new ExternalEngine(options, external, std::move(parts)));
  engine->claim_ = std::move(claim);
  engine->keeper_.Post([raw = engine.get()] { raw->Tick(); });
  engine->tick_ =
      engine->keeper_.PostEvery(base::FromSeconds(external.idle_health_s), [raw = engine.get()] { raw->Tick(); });
  return engine;
}

ExternalEngine::ExternalEngine(const rollout::EngineOptions& options, const ExternalOptions& external, Parts parts)
    : options_(options),
      external_(external),
      api_(std::move(parts.api)),
      model_(std::move(parts.model)),
      tokenizer_(std::move(parts.tokenizer)),
      start_model_(std::move(parts.start_model)),
      command_words_(std::move(parts.command_words)),
      key_(std::move(parts.key)),
      log_path_(std::move(parts.log_path)),
      clock_(*parts.clock),
      started_(clock_.Now()),
      codec_{.max_bytes = parts.max_weight_bytes,
             .threads = std::max(options.threads, 1),
             .buffers = std::make_shared<weights::BufferPool>()},
      link_(std::make_shared<Link>(this)),
      calls_engine_(CallsEngine()),
      control_(*api_, key_),
      exchange_(std::move(parts.exchange)),
      server_since_(started_),
      streams_(std::make_unique<http::Streams>(Connections(options))),
      keeper_({.name = "engine"}, clock_) {
  control_.set_url(external_.url);
}

ExternalEngine::~ExternalEngine() {
  {
    base::MutexLock lock(link_->mu);
    link_->engine = nullptr;
  }
  Shutdown();
}

void ExternalEngine::Shutdown() {
  {
    base::MutexLock lock(mu_);
    if (std::exchange(stopping_, true)) return;
    sending_ = false;
    changed_.SignalAll();
  }
  control_.Stop();
  tick_.Cancel();
  EndAll(ShuttingDown());
  keeper_.Shutdown();
  process_.reset();
  base::MutexLock lock(mu_);
  while (!running_.empty()) changed_.Wait(mu_);  // the streams' thread delivers their errors
}

absl::Status ExternalEngine::fault() const {
  base::MutexLock lock(mu_);
  return fault_;
}

// --- weights ---

absl::StatusOr<int64_t> ExternalEngine::LiveVersion() {
  base::MutexLock lock(mu_);
  return live_.has_value() ? live_->version : -1;
}

absl::StatusOr<std::vector<weights::HeldVersion>> ExternalEngine::HeldVersions() {
  base::MutexLock lock(mu_);
  if (stopping_) return ShuttingDown();
  std::vector<weights::HeldVersion> all;
  if (live_.has_value()) all.push_back({live_->version, live_->checksum});
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
    if (ready_) return absl::OkStatus();
    if (cancelled())
      return absl::CancelledError("the sender canceled the update while the rollout server was starting");
    clock_.WaitUntil(changed_, mu_, clock_.Now() + kReadyPoll);
  }
}

absl::StatusOr<v1::UpdateWeightsResponse> ExternalEngine::TakeUpdate(const Wanted& wanted) {
  const v1::Manifest& target = wanted.target;
  if (wanted.place == weights::Place::kBeside) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot retain version ", target.version(), ": ", api_->name(),
                     " holds one version; use rollout.engine: ingot, which holds several"));
  }
  INGOT_RETURN_IF_ERROR(AwaitReady(wanted.cancelled));
  base::MutexLock update_lock(update_mu_);
  if (wanted.cancelled()) return GivenUp(target);
  v1::UpdateWeightsResponse response;
  response.set_version(target.version());
  response.set_not_retained(wanted.place == weights::Place::kLiveRetained);
  if (IsLive(target)) return response;  // a sender that did not get the response retries
  const nanoseconds start = clock_.Now();
  INGOT_ASSIGN_OR_RETURN(const std::shared_ptr<const weights::Snapshot> snapshot, wanted.make(accepted_));
  INGOT_ASSIGN_OR_RETURN(const std::string dir, exchange_->Write(snapshot));
  v1::SwapTimes times;
  times.set_version(target.version());
  times.set_checksum(target.checksum());
  times.set_fetch_ms(Millis(wanted.fetch));
  times.set_apply_ms(Millis(clock_.Now() - start));
  INGOT_RETURN_IF_ERROR(Install(snapshot, dir, wanted.cancelled, times));
  response.set_fetch_ms(times.fetch_ms());
  response.set_apply_ms(times.apply_ms());
  response.set_wait_ms(times.wait_ms());
  response.set_pause_ms(times.pause_ms());
  return response;
}

bool ExternalEngine::IsLive(const v1::Manifest& target) const {
  base::MutexLock lock(mu_);
  return live_.has_value() && live_->version == target.version() && live_->checksum == target.checksum();
}

absl::Status ExternalEngine::Install(const std::shared_ptr<const weights::Snapshot>& snapshot, const std::string& dir,
                                     const std::function<bool()>& cancelled, v1::SwapTimes& times) {
  const std::string label = VersionLabel(snapshot->version(), snapshot->checksum());
  const nanoseconds start = clock_.Now();
  INGOT_RETURN_IF_ERROR(PauseServer(cancelled));
  const nanoseconds paused = clock_.Now();
  // From here on, the server may have part of the new weights, so it is resumed only with all of them.
  absl::Status loaded = LoadWithRetries(dir, label);
  if (loaded.ok()) {
    base::MutexLock lock(mu_);
    labels_[label] = snapshot->version();
    live_ = Live{snapshot->version(), snapshot->checksum(), label, clock_.UnixNanos()};
    lost_ = false;  // new requests wait for `sending_`
  }
  if (loaded.ok()) loaded = control_.Call(api_->Resume(), seconds(external_.load_s)).status();
  if (!loaded.ok()) {
    Lose(base::Annotate(loaded, absl::StrCat("version ", snapshot->version())), /*server_gone=*/false);
    return absl::UnavailableError(absl::StrCat("the server did not load version ", snapshot->version(),
                                               " and stays paused until it does: ", loaded.message()));
  }
  exchange_->KeepOnly(dir, accepted_dir_);
  accepted_ = snapshot;
  accepted_dir_ = dir;
  times.set_wait_ms(Millis(paused - start));
  times.set_pause_ms(Millis(clock_.Now() - paused));
  {
    base::MutexLock lock(mu_);
    if (stopping_) return ShuttingDown();
    if (!live_.has_value()) return absl::UnavailableError("the rollout server exited while it was loading the weights");
    sending_ = true;
    suspect_ = false;
    swapped_in_ = times;
    swapped_at_ = clock_.Now();
  }
  SendWaiting();
  INGOT_LOG(debug, "rollout: {} runs version {} (pause {:.0f} ms)", api_->name(), snapshot->version(),
            times.wait_ms() + times.pause_ms());
  return absl::OkStatus();
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
  // Without a version, it has no requests to keep, and what its prefix cache was computed with is unknown.
  const SwapMode mode = has_weights ? external_.swap : SwapMode::kAbort;
  absl::Status paused = control_.Call(api_->Pause(mode), seconds(external_.load_s)).status();
  if (paused.ok() && cancelled()) paused = absl::CancelledError("the sender canceled the update");
  if (paused.ok()) return absl::OkStatus();
  // A server whose weights are unknown is never resumed.
  if (!has_weights) return absl::IsCancelled(paused) ? paused : absl::UnavailableError(paused.message());
  if (const absl::Status resumed = control_.Call(api_->Resume(), seconds(external_.load_s)).status(); !resumed.ok()) {
    Lose(resumed, /*server_gone=*/true);
    return absl::IsCancelled(paused) ? paused : absl::UnavailableError(paused.message());
  }
  {
    base::MutexLock lock(mu_);
    sending_ = was_sending && live_.has_value() && !stopping_;  // the keeper may have lost the server meanwhile
  }
  SendWaiting();
  return absl::IsCancelled(paused) ? paused : absl::UnavailableError(paused.message());
}

absl::Status ExternalEngine::LoadWithRetries(const std::string& dir, const std::string& label) {
  absl::Status loaded;
  for (int tries = 0; tries < kLoadTries; ++tries) {
    loaded = control_.LoadAndLabel(dir, label, seconds(external_.load_s));
    if (loaded.ok()) return loaded;
    INGOT_LOG(warn, "rollout: {}; the server stays paused until it has received the full version again",
              std::string(loaded.message()));
  }
  return loaded;
}

void ExternalEngine::Lose(const absl::Status& why, bool server_gone) {
  {
    base::MutexLock lock(mu_);
    sending_ = false;
    lost_ = true;
    live_.reset();
    suspect_ = false;
    ready_ = ready_ && !server_gone;
    if (server_gone) server_since_ = clock_.Now();
    changed_.SignalAll();
  }
  INGOT_LOG(warn, "rollout: the server's weights cannot be used, so its requests are aborted: {}",
            std::string(why.message()));
  EndAll(absl::UnavailableError(absl::StrCat("the rollout server lost its weights: ", why.message())));
}

}  // namespace ingot::engines
