#include "weights/publisher.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.h"

namespace ingot::weights {
namespace {

double Milliseconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

// True for an answer that an engine gives again however often it is asked. Any other may pass: the engine is being
// started again, or was too slow.
bool Refuses(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kInternal:
      return true;
    default:
      return false;
  }
}

}  // namespace

// One version on its way. Constant after construction, except for the full copies, which the first engine that needs
// one encodes. A delta without a base is a full copy already.
struct Publisher::Update {
  int64_t generation = 0;  // counts the updates from 1; 0 = a retained version only
  std::shared_ptr<const Snapshot> snapshot;
  bool retain = false;
  CodecOptions codec;
  std::optional<EncodedDelta> delta;  // from the generation before, or a full copy; none if all engines share memory
  double density = 0;                 // of the delta

  base::Mutex mu;
  std::optional<EncodedDelta> full ABSL_GUARDED_BY(mu);          // stays: a lost engine is tried every second
  std::weak_ptr<const EncodedDelta> beside ABSL_GUARDED_BY(mu);  // lives while it is being sent to an engine

  absl::StatusOr<const EncodedDelta*> FullCopy() {
    if (delta.has_value() && IsFullCopy(delta->header)) return &*delta;
    base::MutexLock lock(mu);
    if (!full.has_value()) {
      INGOT_ASSIGN_OR_RETURN(full, Encode(nullptr, *snapshot, retain, codec));
    }
    return &*full;
  }

  absl::StatusOr<std::shared_ptr<const EncodedDelta>> CopyBeside() {
    base::MutexLock lock(mu);
    std::shared_ptr<const EncodedDelta> copy = beside.lock();
    if (copy == nullptr) {
      INGOT_ASSIGN_OR_RETURN(EncodedDelta encoded, EncodeBeside(*snapshot, codec));
      copy = std::make_shared<const EncodedDelta>(std::move(encoded));
      beside = copy;
    }
    return copy;
  }
};

// All fields but the first two are guarded by Publisher::mu_.
struct Publisher::Engine {
  Engine(std::string name, std::shared_ptr<Sink> sink) : name(std::move(name)), sink(std::move(sink)) {}

  const std::string name;
  const std::shared_ptr<Sink> sink;

  bool scheduled = false;  // has a task on the executor
  bool leased = false;
  bool busy = false;                    // inside a call to the sink
  int64_t confirmed = 0;                // generation; 0 = unknown
  int64_t version = -1;                 // of the confirmed generation; -1 = unknown
  int64_t attempted = 0;                // the last generation tried, confirmed or not; 0 = none
  absl::Status error;                   // of that attempt
  std::chrono::nanoseconds sent_at{0};  // the beginning of that attempt
  bool retry = false;                   // the newest is to be tried once more
  bool ask = false;                     // the engine is to be asked for its version
  std::vector<int64_t> releases;        // versions to free
  absl::Status release_error;           // of releases.front(); while it is set, no release is sent
  v1::UpdateWeightsResponse answer;     // of the confirmed generation
  int64_t reached = -1;                 // the last version that it ever confirmed; -1 = none
  int full_copies = 0;
  bool retained = false;  // the last version that it confirmed
};

// One call, or a few in a row, to an engine.
struct Publisher::Job {
  enum class Kind { kNone, kRelease, kUpdate, kAsk };
  Kind kind = Kind::kNone;
  int64_t release = -1;                 // kRelease: the version to free
  std::shared_ptr<Update> update = {};  // kUpdate
  bool delta_fits = false;              // kUpdate: the engine holds the base of the delta
  bool holds_base = false;              // kUpdate: the engine has confirmed a version since its start
  Retained retained = {};               // kUpdate: versions that the engine holds beside it
};

absl::Status PublisherOptions::Validate() const {
  if (deadline.count() <= 0) {
    return absl::InvalidArgumentError(absl::StrCat("deadline is ", deadline.count(), " ms: must be > 0"));
  }
  return codec.Validate();
}

Publisher::Publisher(PublisherOptions options, const base::Clock& clock)
    : options_(options), clock_(clock), executor_({.name = "weights", .threads = 0}, clock) {}

Publisher::~Publisher() {
  {
    base::MutexLock lock(mu_);
    stopping_ = true;
  }
  executor_.Shutdown();
}

absl::Status Publisher::AddEngine(std::string name, std::shared_ptr<Sink> sink) {
  INGOT_RETURN_IF_ERROR(executor_.AddThreads(1));
  base::MutexLock lock(mu_);
  engines_.push_back(std::make_unique<Engine>(std::move(name), std::move(sink)));
  Schedule(*engines_.back());
  return absl::OkStatus();
}

// --- an engine's task ---

void Publisher::Schedule(Engine& engine) {
  if (engine.scheduled || NextJob(engine).kind == Job::Kind::kNone) return;
  engine.scheduled = true;
  executor_.Post([this, &engine] { Serve(engine); });
}

void Publisher::ScheduleAll() {
  for (const std::unique_ptr<Engine>& engine : engines_) Schedule(*engine);
}

void Publisher::Serve(Engine& engine) {
  while (true) {
    Job job = Begin(engine);
    switch (job.kind) {
      case Job::Kind::kNone:
        return;
      case Job::Kind::kRelease:
        SendRelease(engine, job.release);
        break;
      case Job::Kind::kUpdate:
        SendUpdate(engine, std::move(job));
        break;
      case Job::Kind::kAsk:
        AskVersion(engine);
        break;
    }
  }
}

Publisher::Job Publisher::NextJob(const Engine& engine) const {
  if (stopping_) return {};
  if (!engine.releases.empty() && engine.release_error.ok()) {
    return {.kind = Job::Kind::kRelease, .release = engine.releases.front()};
  }
  if (newest_ != nullptr && engine.confirmed != newest_->generation &&
      (engine.attempted != newest_->generation || engine.retry)) {
    return {.kind = Job::Kind::kUpdate, .update = newest_};
  }
  return {.kind = engine.ask ? Job::Kind::kAsk : Job::Kind::kNone};
}

Publisher::Job Publisher::Begin(Engine& engine) {
  base::MutexLock lock(mu_);
  Job job = NextJob(engine);
  engine.busy = job.kind != Job::Kind::kNone;
  if (!engine.busy) engine.scheduled = false;
  if (job.kind == Job::Kind::kAsk) engine.ask = false;
  if (job.kind == Job::Kind::kUpdate) {
    const Update& update = *job.update;
    job.delta_fits = update.delta.has_value() && engine.confirmed == update.generation - 1 && engine.confirmed > 0;
    job.holds_base = engine.confirmed > 0;
    job.retained = retained_;
    if (update.retain) job.retained.erase(update.snapshot->version());
    engine.attempted = update.generation;
    engine.sent_at = clock_.Now();
    engine.retry = false;
  }
  return job;
}

void Publisher::SendUpdate(Engine& engine, Job job) {
  const std::shared_ptr<Update>& update = job.update;
  const int64_t version = update->snapshot->version();
  const bool shares = engine.sink->SharesMemory();
  bool full = shares ? !job.holds_base : !job.delta_fits;
  absl::StatusOr<v1::UpdateWeightsResponse> response = absl::FailedPreconditionError("");
  if (shares && !full) {
    response = engine.sink->Share(update->snapshot, update->retain ? Place::kLiveRetained : Place::kLive);
  } else if (!full) {
    response = engine.sink->Update(*update->delta);
    if (absl::IsFailedPrecondition(response.status()) || absl::IsDataLoss(response.status())) {
      INGOT_LOG(warn, "engine {} refused the delta to version {}, sending a full copy: {}", engine.name, version,
                std::string(response.status().message()));
      full = true;
    }
  }
  if (full) response = SendFull(engine, *update, std::move(job.retained));
  if (response.ok() && response->version() != version) {
    response = absl::InternalError(absl::StrCat("it confirmed version ", response->version()));
  }

  base::MutexLock lock(mu_);
  engine.busy = false;
  const bool logged = !engine.leased && engine.error.code() == response.status().code();
  engine.error = response.status();
  changed_.SignalAll();
  if (response.ok()) {
    RecordConfirmed(engine, update, *response, full);
    return;
  }
  if (!logged) {
    INGOT_LOG(warn, "engine {} {} version {}, tried again: {}", engine.name,
              engine.leased ? "loses its lease at" : "did not take", version, response.status().ToString());
  }
  EndLease(engine);
}

void Publisher::RecordConfirmed(Engine& engine, const std::shared_ptr<Update>& update,
                                const v1::UpdateWeightsResponse& response, bool full) {
  engine.confirmed = update->generation;
  engine.version = engine.reached = update->snapshot->version();
  engine.answer = response;
  engine.full_copies += full && !engine.sink->SharesMemory();
  engine.release_error = absl::OkStatus();
  engine.retained = update->retain && !response.not_retained();
  if (response.not_retained()) {
    INGOT_LOG(warn, "engine {} serves version {} but does not retain it: it holds as many as it may", engine.name,
              engine.version);
  }
  // The version was released while the engine was told to retain it.
  if ((full || engine.sink->SharesMemory()) && update->retain && !retained_.contains(engine.version))
    engine.releases.push_back(engine.version);
  // If a newer version is out, the engine gets that next, and its lease waits for it.
  if (newest_ != update || engine.leased) return;
  engine.leased = true;
  INGOT_LOG(info, "engine {} is leased at version {}", engine.name, engine.version);
}

void Publisher::EndLease(Engine& engine) {
  leases_lost_ += engine.leased;
  engine.leased = false;
  engine.confirmed = 0;
  engine.version = -1;
}

absl::StatusOr<v1::UpdateWeightsResponse> Publisher::SendFull(Engine& engine, Update& update, Retained retained) {
  // Before the newest: an engine without a newest version tells calls that are pinned to a missing one to come again;
  // an engine that has one tells them that the version is lost.
  INGOT_RETURN_IF_ERROR(SendRetained(engine, &retained));
  v1::UpdateWeightsResponse response;
  if (engine.sink->SharesMemory()) {
    INGOT_ASSIGN_OR_RETURN(response,
                           engine.sink->Share(update.snapshot, update.retain ? Place::kLiveRetained : Place::kLive));
  } else {
    INGOT_ASSIGN_OR_RETURN(const EncodedDelta* copy, update.FullCopy());
    INGOT_ASSIGN_OR_RETURN(response, engine.sink->Update(*copy));
  }
  // After it too: a version that was live and not retained is gone now, and the engine may have been started again.
  INGOT_RETURN_IF_ERROR(SendRetained(engine, &retained));
  return response;
}

absl::Status Publisher::SendBeside(Engine& engine, Update& update) {
  if (engine.sink->SharesMemory()) return engine.sink->Share(update.snapshot, Place::kBeside).status();
  INGOT_ASSIGN_OR_RETURN(const std::shared_ptr<const EncodedDelta> copy, update.CopyBeside());
  return engine.sink->Update(*copy).status();
}

absl::Status Publisher::SendRetained(Engine& engine, Retained* retained) {
  if (retained->empty()) return absl::OkStatus();
  const absl::StatusOr<std::vector<HeldVersion>> held = engine.sink->HeldVersions();
  if (!held.ok()) return base::Annotate(held.status(), "it cannot say what it holds");
  for (auto it = retained->begin(); it != retained->end();) {
    const auto& [version, update] = *it;
    const auto is_same = [&, version = version, checksum = update->snapshot->checksum()](const HeldVersion& one) {
      return one.version == version && (one.checksum == checksum || one.checksum == 0);
    };
    if (std::any_of(held->begin(), held->end(), is_same)) {
      ++it;
      continue;
    }
    const absl::Status sent = SendBeside(engine, *update);
    if (sent.ok()) {
      ++it;
      continue;
    }
    if (!Refuses(sent) && !absl::IsResourceExhausted(sent)) {
      return base::Annotate(sent, absl::StrCat("version ", version, ", which it is to keep"));
    }
    INGOT_LOG(warn, "engine {} serves without version {}, which it is to keep: {}", engine.name, version,
              sent.ToString());
    it = retained->erase(it);
  }
  return absl::OkStatus();
}

void Publisher::SendRelease(Engine& engine, int64_t version) {
  const absl::Status status = engine.sink->Release(version);
  base::MutexLock lock(mu_);
  engine.busy = false;
  if (status.ok()) std::erase(engine.releases, version);
  engine.release_error = base::Annotate(status, "engine " + engine.name);
  changed_.SignalAll();
}

void Publisher::AskVersion(Engine& engine) {
  const absl::StatusOr<int64_t> version = engine.sink->LiveVersion();
  base::MutexLock lock(mu_);
  engine.busy = false;
  changed_.SignalAll();
  if (version.ok()) engine.release_error = absl::OkStatus();
  if (!engine.leased || (version.ok() && *version == engine.version)) return;
  INGOT_LOG(warn, "engine {} loses its lease at version {}: {}", engine.name, engine.version,
            version.ok() ? absl::StrCat("it holds version ", *version) : version.status().ToString());
  EndLease(engine);
  engine.retry = version.ok();
}

// --- publishing ---

std::shared_ptr<Publisher::Update> Publisher::MakeRetained(std::shared_ptr<const Snapshot> snapshot) const {
  auto update = std::make_shared<Update>();
  update->snapshot = std::move(snapshot);
  update->codec = options_.codec;
  return update;
}

void Publisher::Retain(std::shared_ptr<const Snapshot> snapshot) {
  const int64_t version = snapshot->version();
  base::MutexLock lock(mu_);
  retained_[version] = MakeRetained(std::move(snapshot));
}

bool Publisher::WaitUntil(std::chrono::nanoseconds deadline, const std::function<bool()>& done) {
  while (!done()) {
    if (!clock_.WaitUntil(changed_, mu_, deadline)) return done();
  }
  return true;
}

Publisher::Asked Publisher::Ask(const std::shared_ptr<Update>& update, bool retain) {
  const int64_t version = update->snapshot->version();
  Asked asked;
  base::MutexLock lock(mu_);
  const bool again = newest_ == update;
  newest_ = update;
  if (retain) retained_[version] = MakeRetained(update->snapshot);
  for (const std::unique_ptr<Engine>& engine : engines_) {
    if (retain) std::erase(engine->releases, version);
    if (again) {
      if (!engine->leased && !engine->busy) engine->attempted = 0;
    } else {
      engine->full_copies = 0;
    }
    if (engine->leased || engine->attempted == 0) {
      asked.needed.push_back(engine.get());
    } else {
      asked.others.push_back(engine.get());
    }
  }
  ScheduleAll();
  return asked;
}

absl::StatusOr<PublishStats> Publisher::Publish(std::shared_ptr<const Snapshot> snapshot, bool retain) {
  INGOT_RETURN_IF_ERROR(options_.Validate());
  const std::chrono::nanoseconds start = clock_.Now();
  const std::shared_ptr<const Snapshot> before = newest();
  INGOT_ASSIGN_OR_RETURN(const std::shared_ptr<Update> update, MakeUpdate(std::move(snapshot), retain));
  const std::chrono::nanoseconds encoded = clock_.Now();

  PublishStats stats;
  stats.version = update->snapshot->version();
  stats.wire_bytes = update->delta.has_value() ? update->delta->wire_bytes() : 0;
  stats.full_bytes = update->snapshot->total_bytes();
  stats.encode_ms = Milliseconds(encoded - start);

  const Asked asked = Ask(update, retain);
  if (before != update->snapshot && !update->delta.has_value()) {
    update->density = Density(before.get(), *update->snapshot);  // while the engines take the version
  }
  stats.density = update->density;

  base::MutexLock lock(mu_);
  const auto answered = [&](const Engine* engine) { return !engine->busy && engine->attempted == update->generation; };
  const std::chrono::nanoseconds deadline = encoded + options_.deadline;
  const auto all_answered = [&](const std::vector<Engine*>& engines) {
    return std::all_of(engines.begin(), engines.end(), answered);
  };
  if (!WaitUntil(deadline, [&] { return all_answered(asked.needed); })) {
    for (Engine* engine : asked.needed) {
      if (answered(engine) || !engine->leased) continue;
      EndLease(*engine);
      INGOT_LOG(warn, "engine {} did not confirm version {} within {} ms and loses its lease", engine->name,
                stats.version, options_.deadline.count());
    }
  }
  const auto any_leased = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return std::any_of(engines_.begin(), engines_.end(), [](const auto& engine) { return engine->leased; });
  };
  if (!any_leased()) {
    // A fresh deadline: the wait above may have used up the first one.
    WaitUntil(clock_.Now() + options_.deadline,
              [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return any_leased() || all_answered(asked.others); });
  }
  if (!any_leased()) return NoLeaseError(stats.version);
  stats.retained = retain;
  AddAnswers(*update, encoded, stats);
  stats.publish_ms = Milliseconds(clock_.Now() - encoded);
  stats.leases_lost = std::exchange(leases_lost_, 0);
  return stats;
}

void Publisher::AddAnswers(const Update& update, std::chrono::nanoseconds encoded, PublishStats& stats) {
  double longest = -1;
  for (const std::unique_ptr<Engine>& engine : engines_) {
    // An engine that has none yet is as far behind as can be.
    stats.version_lag = std::max(stats.version_lag, stats.version - engine->reached);
    if (!engine->leased) continue;
    stats.retained &= engine->retained;
    stats.full_copies += engine->full_copies;
    if (engine->confirmed != update.generation) continue;
    const v1::UpdateWeightsResponse& answer = engine->answer;
    const double send = std::max(0.0, Milliseconds(engine->sent_at - encoded));
    const double all = send + answer.fetch_ms() + answer.apply_ms() + answer.wait_ms() + answer.pause_ms();
    if (all <= longest) continue;
    longest = all;
    stats.send_ms = send;
    stats.fetch_ms = answer.fetch_ms();
    stats.apply_ms = answer.apply_ms();
    stats.wait_ms = answer.wait_ms();
    stats.pause_ms = answer.pause_ms();
  }
}

absl::StatusOr<std::shared_ptr<Publisher::Update>> Publisher::MakeUpdate(std::shared_ptr<const Snapshot> snapshot,
                                                                         bool retain) {
  std::shared_ptr<Update> before;
  bool encodes = false;
  {
    base::MutexLock lock(mu_);
    before = newest_;
    encodes =
        std::any_of(engines_.begin(), engines_.end(), [](const auto& engine) { return !engine->sink->SharesMemory(); });
  }
  const Snapshot* const base = before == nullptr ? nullptr : before->snapshot.get();
  if (base != nullptr && (snapshot->version() < base->version() ||
                          (snapshot->version() == base->version() && snapshot->checksum() != base->checksum()))) {
    return absl::InvalidArgumentError(
        absl::StrCat("version ", snapshot->version(), " published after version ", base->version(), ": versions rise"));
  }
  if (base != nullptr && snapshot->version() == base->version() && retain == before->retain) return before;
  auto update = std::make_shared<Update>();
  update->generation = before == nullptr ? 1 : before->generation + 1;
  update->retain = retain;
  update->codec = options_.codec;
  if (encodes) {
    INGOT_ASSIGN_OR_RETURN(update->delta, Encode(base, *snapshot, retain, options_.codec));
    const EncodedDelta& delta = *update->delta;
    update->density = delta.total_elements == 0
                          ? 0
                          : static_cast<double>(delta.changed_elements) / static_cast<double>(delta.total_elements);
  }
  update->snapshot = std::move(snapshot);
  return update;
}

absl::Status Publisher::NoLeaseError(int64_t version) {
  const std::string what = absl::StrCat("version ", version, " is live on none of ", engines_.size(), " engines");
  if (engines_.empty()) return absl::UnavailableError(what);
  // An engine that may still take the version is worth waiting for.
  const auto found = std::find_if(engines_.begin(), engines_.end(),
                                  [](const auto& engine) { return engine->busy || !Refuses(engine->error); });
  if (found == engines_.end()) {
    return base::Annotate(engines_.front()->error, absl::StrCat(what, "; engine ", engines_.front()->name));
  }
  const Engine& engine = **found;
  return absl::UnavailableError(absl::StrCat(what, "; engine ", engine.name, ": ",
                                             engine.busy ? "it has not answered" : engine.error.ToString()));
}

void Publisher::CheckLeases() {
  base::MutexLock lock(mu_);
  for (const std::unique_ptr<Engine>& engine : engines_) {
    engine->retry = !engine->leased;
    engine->ask = engine->leased && !engine->busy;
  }
  ScheduleAll();
}

absl::Status Publisher::Release(int64_t version) {
  base::MutexLock lock(mu_);
  retained_.erase(version);
  std::vector<Engine*> asked;
  for (const std::unique_ptr<Engine>& engine : engines_) {
    engine->releases.push_back(version);
    engine->release_error = absl::OkStatus();
    if (engine->leased) asked.push_back(engine.get());
  }
  ScheduleAll();
  const auto told = [&](const Engine* engine) {
    return !engine->release_error.ok() ||
           std::find(engine->releases.begin(), engine->releases.end(), version) == engine->releases.end();
  };
  if (!WaitUntil(clock_.Now() + options_.deadline, [&] { return std::all_of(asked.begin(), asked.end(), told); })) {
    return absl::DeadlineExceededError(absl::StrCat("not every engine freed version ", version, " within ",
                                                    options_.deadline.count(), " ms; they do when they next answer"));
  }
  for (const Engine* engine : asked) INGOT_RETURN_IF_ERROR(engine->release_error);
  return absl::OkStatus();
}

std::map<int64_t, int> Publisher::HeldVersions() const {
  std::vector<std::shared_ptr<Sink>> sinks;
  {
    base::MutexLock lock(mu_);
    for (const std::unique_ptr<Engine>& engine : engines_) sinks.push_back(engine->sink);
  }
  std::map<int64_t, int> held;
  for (const std::shared_ptr<Sink>& sink : sinks) {
    const absl::StatusOr<std::vector<HeldVersion>> versions = sink->HeldVersions();
    if (!versions.ok()) continue;
    for (const HeldVersion& one : *versions) ++held[one.version];
  }
  return held;
}

std::shared_ptr<const Snapshot> Publisher::newest() const {
  base::MutexLock lock(mu_);
  return newest_ == nullptr ? nullptr : newest_->snapshot;
}

int Publisher::leased_engines() const {
  base::MutexLock lock(mu_);
  return std::count_if(engines_.begin(), engines_.end(), [](const auto& engine) { return engine->leased; });
}

std::vector<EngineInfo> Publisher::engines() const {
  base::MutexLock lock(mu_);
  std::vector<EngineInfo> infos;
  for (const std::unique_ptr<Engine>& engine : engines_) {
    infos.push_back({engine->name, engine->leased, engine->busy, engine->version});
  }
  return infos;
}

}  // namespace ingot::weights
