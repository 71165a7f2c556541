#include "rollout/engine/engine.h"

#include <algorithm>
#include <utility>

#include "base/device_failure.h"
#include "base/log.h"

namespace ingot::rollout {

namespace {

using std::chrono::duration;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// How often an engine without weights checks for late requests, and a parked one also for the end of its lease.
constexpr milliseconds kDeadlinePoll{20};

double Millis(nanoseconds time) { return duration<double, std::milli>(time).count(); }

absl::Status GivenUp(const v1::Manifest& target) {
  return absl::CancelledError(
      absl::StrCat("the sender canceled the update to version ", target.version(), " before it was applied"));
}

v1::KvStoreStatus StatusOf(const KvTransfer& transfer) {
  const FetchStats& fetched = transfer.fetched();
  const kv::StoreStats stored = transfer.stored();
  v1::KvStoreStatus status;
  status.set_fetched_tokens(fetched.fetched_tokens);
  status.set_fetch_seconds(fetched.fetch_seconds);
  status.set_fetch_abandoned(fetched.abandoned);
  status.set_put_chunks(stored.put_chunks);
  status.set_put_dropped(transfer.puts_dropped() + stored.failed_puts);
  status.set_corrupt(stored.corrupt);
  status.set_bytes(stored.bytes);
  status.set_retired_bytes(stored.retired_bytes);
  status.set_evicted_bytes(stored.evicted_bytes);
  return status;
}

EngineOptions Resolve(EngineOptions options, const ModelRunner& runner) {
  if (options.context_length == 0) options.context_length = static_cast<int32_t>(runner.context_length());
  return options;
}

}  // namespace

// Wakes the step thread when it is idle.
struct Engine::Wake {
  base::Mutex mu;
  base::CondVar changed;
  bool signalled ABSL_GUARDED_BY(mu) = false;

  void Signal() {
    base::MutexLock lock(mu);
    signalled = true;
    changed.Signal();
  }
  // Waits until Signal or `deadline`.
  void WaitUntil(const base::Clock& clock, nanoseconds deadline) {
    base::MutexLock lock(mu);
    while (!signalled && clock.Now() < deadline) clock.WaitUntil(changed, mu, deadline);
    signalled = false;
  }
};

class Engine::Handle final : public Client::Request {
 public:
  Handle(std::shared_ptr<ChunkGate> gate, std::shared_ptr<Wake> wake)
      : gate_(std::move(gate)), wake_(std::move(wake)) {}
  ~Handle() override {
    gate_->Close();
    wake_->Signal();
  }

 private:
  const std::shared_ptr<ChunkGate> gate_;
  const std::shared_ptr<Wake> wake_;
};

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(const EngineOptions& options, Parts parts,
                                                       std::shared_ptr<const weights::Snapshot> initial) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  if (options.context_length > parts.runner->context_length()) {
    return absl::InvalidArgumentError(absl::StrCat("rollout.context_length is ", options.context_length,
                                                   "; the model supports at most ", parts.runner->context_length()));
  }
  std::unique_ptr<Engine> engine(new Engine(options, std::move(parts)));
  if (initial != nullptr) {
    base::MutexLock update_lock(engine->update_mu_);
    INGOT_ASSIGN_OR_RETURN(LoadedVersion first, engine->LoadVersion(std::move(initial)));
    engine->core_.SetNewest(first.version);
    base::MutexLock lock(engine->mu_);
    engine->versions_.SetNewest(std::move(first));
  }
  {
    base::MutexLock lock(engine->mu_);
    engine->Report();
  }
  engine->step_thread_.Post([raw = engine.get()] { raw->Run(); });
  return engine;
}

Engine::Engine(const EngineOptions& options, Parts parts)
    : options_(Resolve(options, *parts.runner)),
      runner_(std::move(parts.runner)),
      codec_{.max_bytes = runner_->max_weight_bytes(),
             .threads = std::max(options_.threads, 1),
             .buffers = std::make_shared<weights::BufferPool>()},
      tokenizer_(std::move(parts.tokenizer)),
      clock_(*parts.clock),
      started_(clock_.Now()),
      wake_(std::make_shared<Wake>()),
      sequences_(options_, *runner_, tokenizer_, clock_),
      versions_(options_.max_retained_versions,
                options_.episode_version == EpisodeVersion::kPinned ? options_.episode_versions : 0),
      core_(options_, runner_.get(), &clock_, std::move(parts.drafters), TransferOf(parts, options_, wake_)),
      step_thread_({.name = "engine"}, clock_) {}

std::optional<KvTransfer::Parts> Engine::TransferOf(Parts& parts, const EngineOptions& options,
                                                    const std::shared_ptr<Wake>& wake) {
  if (parts.store == nullptr) return std::nullopt;
  return KvTransfer::Parts{std::move(parts.store), options.kv_store, [wake] { wake->Signal(); }};
}

Engine::~Engine() { Shutdown(); }

bool Engine::Drain(std::chrono::nanoseconds timeout) {
  const nanoseconds deadline = clock_.Now() + timeout;
  base::MutexLock lock(mu_);
  draining_ = true;
  swapped_.SignalAll();  // a call of Park ends
  while (outstanding_ > 0 && !stopping_) {
    if (!clock_.WaitUntil(swapped_, mu_, deadline) && clock_.Now() >= deadline) break;
  }
  return outstanding_ == 0;
}

void Engine::Shutdown() {
  {
    base::MutexLock lock(mu_);
    stopping_ = true;
    swapped_.SignalAll();
  }
  wake_->Signal();
  step_thread_.Shutdown();
}

// --- requests ---

std::unique_ptr<Client::Request> Engine::Generate(v1::GenerateRequest request, OnChunk on_chunk) {
  auto gate = std::make_shared<ChunkGate>(std::move(on_chunk));
  auto handle = std::make_unique<Handle>(gate, wake_);
  absl::StatusOr<std::unique_ptr<Sequence>> sequence = sequences_.Make(request);
  absl::Status status = sequence.status();
  if (status.ok()) {
    (*sequence)->gate = gate;
    status = Enqueue(*std::move(sequence));
  }
  if (status.ok()) {
    wake_->Signal();
  } else {
    gate->Deliver(base::Annotate(status, absl::StrCat("request ", request.request_id())));
  }
  return handle;
}

absl::Status Engine::Enqueue(std::unique_ptr<Sequence> sequence) {
  base::MutexLock lock(mu_);
  if (stopping_) return absl::UnavailableError("the rollout engine is shutting down");
  if (draining_) return absl::UnavailableError("the rollout engine is leaving the run");
  if (!fault_.ok()) return absl::UnavailableError(absl::StrCat("the rollout engine failed: ", fault_.message()));
  // The rest of a call was accepted once, here or by an engine that is lost, and must not be lost to newer calls, so it has
  // as much room again.
  const int64_t most = static_cast<int64_t>(options_.max_running) + options_.max_waiting;
  if (outstanding_ >= (sequence->first_index == 0 ? most : 2 * most)) {
    return absl::ResourceExhaustedError(absl::StrCat("the rollout engine is full: it has ", outstanding_,
                                                     " requests, the limit of rollout.max_running + max_waiting; "
                                                     "retry later or on another engine"));
  }
  if (sequence->pinned_version >= 0) {
    INGOT_ASSIGN_OR_RETURN(sequence->pinned, versions_.Pin(sequence->pinned_version));
  }
  if (sequence->preferred_version >= 0 && sequence->preferred_version >= sequence->min_version) {
    sequence->pinned = versions_.Prefer(sequence->preferred_version);
  }
  INGOT_RETURN_IF_ERROR(CheckMinVersion(*sequence, versions_.newest().version.get()));
  sequence->order = next_order_++;
  ++outstanding_;
  inbox_.push_back(std::move(sequence));
  return absl::OkStatus();
}

absl::StatusOr<v1::EngineStatusResponse> Engine::Status() {
  base::MutexLock lock(mu_);
  if (stopping_) return absl::UnavailableError("the rollout engine is shutting down");
  v1::EngineStatusResponse status = status_;
  status.set_waiting(status.waiting() + static_cast<int32_t>(inbox_.size()));
  if (tokenizer_ != nullptr) status.set_tokenizer_fingerprint(tokenizer_->fingerprint());
  status.set_alive_seconds(duration<double>(clock_.Now() - started_).count());
  if (prefill_.requests > 0) {
    v1::PrefillProgress& prefill = *status.mutable_prefill();
    prefill.set_requests(prefill_.requests);
    prefill.set_tokens(prefill_.tokens);
    prefill.set_prefilled(prefill_.prefilled);
    prefill.set_oldest_seconds(duration<double>(clock_.Now() - prefill_.oldest).count());
  }
  status.set_version(versions_.newest_number());
  status.clear_held_versions();
  status.clear_held_checksums();
  status.clear_held_loaded_unix_ns();
  for (const WeightVersion* held : versions_.All()) {
    status.add_held_versions(held->version);
    status.add_held_checksums(held->checksum);
    status.add_held_loaded_unix_ns(held->loaded_unix_ns);
  }
  return status;
}

// --- weights ---

absl::StatusOr<int64_t> Engine::LiveVersion() {
  base::MutexLock lock(mu_);
  return versions_.newest_number();
}

absl::StatusOr<std::vector<weights::HeldVersion>> Engine::HeldVersions() {
  base::MutexLock lock(mu_);
  if (stopping_) return absl::UnavailableError("the rollout engine is shutting down");
  std::vector<weights::HeldVersion> all;
  for (const WeightVersion* held : versions_.All()) all.push_back({held->version, held->checksum});
  return all;
}

std::shared_ptr<const weights::Snapshot> Engine::newest() const {
  base::MutexLock lock(mu_);
  return versions_.newest().snapshot;
}

bool Engine::HasRoom(int64_t version) {
  base::MutexLock lock(mu_);
  return versions_.HasRoom(version);
}

absl::StatusOr<LoadedVersion> Engine::LoadVersion(std::shared_ptr<const weights::Snapshot> snapshot) {
  auto version = std::make_shared<WeightVersion>();
  version->version = snapshot->version();
  version->checksum = snapshot->checksum();
  version->policy_checksum = snapshot->policy_checksum();
  version->salt = next_salt_++;
  version->loaded_unix_ns = clock_.UnixNanos();
  absl::StatusOr<std::shared_ptr<const RunnableModel>> model = runner_->Load(snapshot);
  if (!model.ok()) {
    NoteFailedLoad(model.status());
    return model.status();
  }
  failed_loads_ = 0;
  version->model = *std::move(model);
  return LoadedVersion{std::move(version), std::move(snapshot)};
}

void Engine::NoteFailedLoad(const absl::Status& error) {
  if (absl::IsResourceExhausted(error)) ++failed_loads_;
  const bool lost = base::IsDeviceFailure(error);
  if (!lost && failed_loads_ < kMaxFailedLoads) return;
  base::MutexLock lock(mu_);
  if (!fault_.ok()) return;
  fault_ = lost ? error
                : absl::InternalError(
                      absl::StrCat("no memory for new weights in ", failed_loads_, " attempts: ", error.message()));
}

absl::Status Engine::fault() const {
  base::MutexLock lock(mu_);
  return fault_;
}

absl::StatusOr<v1::UpdateWeightsResponse> Engine::UpdateUnless(const weights::EncodedDelta& delta,
                                                               const std::function<bool()>& cancelled) {
  const auto make = [&](const std::shared_ptr<const weights::Snapshot>& live) {
    return weights::Apply(live, delta, codec_);
  };
  const weights::Place place = delta.header.beside()   ? weights::Place::kBeside
                               : delta.header.retain() ? weights::Place::kLiveRetained
                                                       : weights::Place::kLive;
  base::MutexLock update_lock(update_mu_);
  return TakeUpdate({delta.header.target(), place, make, cancelled, delta.fetch});
}

absl::StatusOr<v1::UpdateWeightsResponse> Engine::Share(const std::shared_ptr<const weights::Snapshot>& snapshot,
                                                        weights::Place place) {
  const auto make = [&](const auto&) -> absl::StatusOr<std::shared_ptr<const weights::Snapshot>> { return snapshot; };
  base::MutexLock update_lock(update_mu_);
  return TakeUpdate({snapshot->manifest(), place, make, [] { return false; }, nanoseconds(0)});
}

absl::StatusOr<v1::UpdateWeightsResponse> Engine::TakeUpdate(const WantedVersion& wanted) {
  const v1::Manifest& target = wanted.target;
  if (wanted.cancelled()) return GivenUp(target);
  const bool room = HasRoom(target.version());
  const nanoseconds start = clock_.Now();
  v1::UpdateWeightsResponse response;
  response.set_version(target.version());
  if (wanted.place == weights::Place::kBeside) {
    if (!room) {
      return absl::ResourceExhaustedError(
          absl::StrCat("cannot retain version ", target.version(), ": the engine already retains ",
                       "rollout.max_retained_versions (", options_.max_retained_versions, ") versions"));
    }
    INGOT_RETURN_IF_ERROR(HoldVersion(wanted));
    return response;
  }
  const bool wants = wanted.place == weights::Place::kLiveRetained;
  const bool retain = wants && room;
  response.set_not_retained(wants && !room);
  std::shared_ptr<const weights::Snapshot> live;
  LoadedVersion replaced;
  {
    base::MutexLock lock(mu_);
    live = versions_.newest().snapshot;
    if (live != nullptr && live->version() == target.version() && live->checksum() == target.checksum()) {
      replaced = versions_.ReplaceRetained(retain);
      return response;  // a sender that did not get the response retries
    }
  }
  INGOT_ASSIGN_OR_RETURN(std::shared_ptr<const weights::Snapshot> snapshot, wanted.make(live));
  live = nullptr;
  INGOT_ASSIGN_OR_RETURN(LoadedVersion next, LoadVersion(std::move(snapshot)));
  v1::SwapTimes times;
  times.set_version(target.version());
  times.set_checksum(target.checksum());
  times.set_fetch_ms(Millis(wanted.fetch));
  times.set_apply_ms(Millis(clock_.Now() - start));
  if (wanted.cancelled()) return GivenUp(target);
  INGOT_ASSIGN_OR_RETURN(times, SwapIn(std::move(next), retain, std::move(times)));
  response.set_fetch_ms(times.fetch_ms());
  response.set_apply_ms(times.apply_ms());
  response.set_wait_ms(times.wait_ms());
  response.set_pause_ms(times.pause_ms());
  INGOT_LOG(debug, "rollout: version {} is live (fetched in {:.1f} ms, built in {:.1f} ms, paused for {:.3f} ms)",
            target.version(), times.fetch_ms(), times.apply_ms(), times.pause_ms());
  return response;
}

absl::Status Engine::Hold(std::shared_ptr<const weights::Snapshot> snapshot) {
  const int64_t number = snapshot->version();
  base::MutexLock update_lock(update_mu_);
  if (!HasRoom(number)) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot retain version ", number, ": the engine already retains ",
                                                     "rollout.max_retained_versions (", options_.max_retained_versions,
                                                     ") versions"));
  }
  INGOT_ASSIGN_OR_RETURN(LoadedVersion held, LoadVersion(std::move(snapshot)));
  base::MutexLock lock(mu_);
  if (stopping_) return absl::UnavailableError("the rollout engine is shutting down");
  if (!versions_.Add(std::move(held))) {
    return absl::InvalidArgumentError(absl::StrCat("the engine already holds version ", number));
  }
  return absl::OkStatus();
}

absl::Status Engine::HoldVersion(const WantedVersion& wanted) {
  const v1::Manifest& target = wanted.target;
  {
    base::MutexLock lock(mu_);
    if (versions_.Retains(target.version(), target.checksum())) return absl::OkStatus();
  }
  INGOT_ASSIGN_OR_RETURN(std::shared_ptr<const weights::Snapshot> snapshot, wanted.make(nullptr));
  INGOT_ASSIGN_OR_RETURN(LoadedVersion held, LoadVersion(std::move(snapshot)));
  if (wanted.cancelled()) return GivenUp(target);
  {
    base::MutexLock lock(mu_);
    if (stopping_) return absl::UnavailableError("the rollout engine is shutting down");
    held = versions_.Retain(std::move(held));
  }
  INGOT_LOG(debug, "rollout: version {} is retained, but not live", target.version());
  return absl::OkStatus();
}

absl::StatusOr<v1::SwapTimes> Engine::SwapIn(LoadedVersion next, bool retain, v1::SwapTimes times) {
  Swap swap;
  swap.next = std::move(next);
  swap.retain = retain;
  swap.times = std::move(times);
  swap.posted = clock_.Now();
  const nanoseconds deadline = swap.posted + milliseconds(options_.update_deadline_ms);
  base::MutexLock lock(mu_);
  if (stopping_) return absl::UnavailableError("the rollout engine is shutting down");
  swap_ = &swap;
  wake_->Signal();
  while (!swap.done) {
    if (stopping_ || clock_.Now() >= deadline) {
      swap_ = nullptr;
      if (stopping_) return absl::UnavailableError("the rollout engine is shutting down");
      return absl::DeadlineExceededError(absl::StrCat(
          "version ", swap.next.version->version, " was verified, but the running step did not end within ",
          "rollout.update_deadline_ms (", options_.update_deadline_ms, "); the old version remains live"));
    }
    clock_.WaitUntil(swapped_, mu_, deadline);
  }
  return std::move(swap.times);
}

absl::Status Engine::Release(int64_t version) {
  LoadedVersion freed;
  {
    base::MutexLock lock(mu_);
    if (stopping_) return absl::UnavailableError("the rollout engine is shutting down");
    freed = versions_.Release(version);
  }
  freed = LoadedVersion();
  wake_->Signal();  // the next step frees its cached blocks
  return absl::OkStatus();
}

// --- the step thread ---

bool Engine::TakeInbox() {
  base::MutexLock lock(mu_);
  if (stopping_) return false;
  for (std::unique_ptr<Sequence>& sequence : inbox_) core_.Add(std::move(sequence));
  inbox_.clear();
  if (draining_) core_.StopPausing();
  if (swap_ != nullptr) {
    const nanoseconds start = clock_.Now();
    swap_->previous = versions_.SetNewest(swap_->next);
    swap_->replaced = versions_.ReplaceRetained(swap_->retain);
    core_.SetNewest(versions_.newest().version);
    swapped_at_ = clock_.Now();
    swap_->times.set_wait_ms(Millis(start - swap_->posted));
    swap_->times.set_pause_ms(Millis(swapped_at_ - start));
    swapped_in_ = swap_->times;
    swap_->done = true;
    swap_ = nullptr;
    swapped_.SignalAll();
  }
  return true;
}

void Engine::WakeStepThread() { wake_->Signal(); }

void Engine::Run() {
  runner_->BindThread();
  std::vector<Emission> emissions;
  while (true) {
    if (!core_.CanStep()) {
      runner_->SetComputing(false);
      const bool watches = core_.waiting() > 0 || core_.parked();
      const nanoseconds poll = watches ? clock_.Now() + kDeadlinePoll : nanoseconds::max();
      wake_->WaitUntil(clock_, std::min(poll, core_.next_fetch_deadline()));
    }
    if (!TakeInbox()) break;
    FollowParking();
    emissions.clear();
    const bool busy = core_.CanStep();
    runner_->SetComputing(busy);
    const nanoseconds start = clock_.Now();
    core_.Step(&emissions);
    Settle(emissions, busy ? clock_.Now() - start : nanoseconds(0));
    for (Emission& emission : emissions) emission.gate->Deliver(std::move(emission.chunk));
  }
  runner_->SetComputing(false);
  const absl::Status gone = absl::UnavailableError("the rollout engine is shutting down");
  emissions.clear();
  core_.FailAll(gone, &emissions);
  {
    base::MutexLock lock(mu_);
    for (std::unique_ptr<Sequence>& sequence : inbox_) emissions.push_back({std::move(sequence->gate), gone, true});
    inbox_.clear();
  }
  for (Emission& emission : emissions) emission.gate->Deliver(std::move(emission.chunk));
}

void Engine::Settle(const std::vector<Emission>& emissions, nanoseconds busy) {
  base::MutexLock lock(mu_);
  outstanding_ -= std::count_if(emissions.begin(), emissions.end(), [](const Emission& e) { return e.last; });
  if (draining_ && outstanding_ == 0) swapped_.SignalAll();
  status_.set_busy_seconds(status_.busy_seconds() + duration<double>(busy).count());
  if (fault_.ok()) fault_ = core_.fault();
  NoteFirstToken(busy);
  Report();
}

void Engine::NoteFirstToken(nanoseconds busy) {
  if (!swapped_in_.has_value() || core_.stats().newest_sampled_salt != versions_.newest().version->salt) return;
  swapped_in_->set_first_token_ms(Millis(clock_.Now() - swapped_at_));
  swapped_in_->set_step_ms(Millis(busy));
  *status_.mutable_first_token() = *std::exchange(swapped_in_, std::nullopt);
}

void Engine::Report() {
  const CoreStats& stats = core_.stats();
  status_.set_running(core_.running());
  status_.set_waiting(core_.waiting());
  status_.set_kv_blocks_total(core_.blocks().total());
  status_.set_kv_blocks_used(core_.blocks().held());
  status_.set_sampled_tokens(stats.sampled_tokens);
  status_.set_prompt_tokens(stats.prompt_tokens);
  status_.set_cached_prompt_tokens(stats.cached_prompt_tokens);
  status_.set_context_length(options_.context_length);
  status_.set_sampling_passes(stats.sampling_passes);
  status_.set_paused_requests(stats.paused_requests);
  status_.set_prefill_requests(stats.prefill_requests);
  status_.clear_drafters();
  for (const Speculator::Counts& counts : core_.drafters()) {
    v1::DrafterStatus& drafter = *status_.add_drafters();
    drafter.set_name(std::string(counts.name));
    drafter.set_drafted(counts.drafted);
    drafter.set_accepted(counts.accepted);
    drafter.set_proposed(counts.proposed);
    drafter.set_dropped(counts.dropped + (counts.name == "given" ? stats.dropped_draft_ids : 0));
    drafter.set_failures(counts.failures);
  }
  if (const DraftShadow::Counts& counts = core_.draft_shadow(); counts.passes > 0) {
    v1::DrafterStatus& shadow = *status_.add_drafters();
    shadow.set_name("shadow");
    shadow.set_drafted(counts.drafted);
    shadow.set_accepted(counts.tokens - counts.passes);
  }
  prefill_ = core_.prefill();
  if (core_.transfer() != nullptr) *status_.mutable_kv_store() = StatusOf(*core_.transfer());
}

}  // namespace ingot::rollout
