#include "weights/publisher.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "base/log.h"

namespace ingot::weights {
namespace {

// With a clock that only moves when told to, a wait has to look at it now and then.
constexpr std::chrono::milliseconds kLook{5};

double Milliseconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

// An engine's answer that it gives again however often it is asked. Anything else may pass: it is being started again,
// or was too slow.
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

// One version on its way. Constant once made, but for the copies, which are encoded when the first engine needs them:
// a delta without a base is one already.
struct Publisher::Update {
  int64_t generation = 0;
  std::shared_ptr<const Snapshot> snapshot;
  bool retain = false;
  CodecOptions codec;
  EncodedDelta delta;  // from the generation before, or a full copy

  base::Mutex mu;
  std::optional<EncodedDelta> full ABSL_GUARDED_BY(mu);          // kept: an engine that is away is tried every second
  std::weak_ptr<const EncodedDelta> beside ABSL_GUARDED_BY(mu);  // as long as an engine is being sent it

  absl::StatusOr<const EncodedDelta*> FullCopy() {
    if (IsFullCopy(delta.header)) return &delta;
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

// All fields but the first three are guarded by Publisher::mu_.
struct Publisher::Engine {
  std::string name;
  std::shared_ptr<Sink> sink;
  std::thread thread;

  bool leased = false;
  bool busy = false;              // inside a call to the sink
  int64_t confirmed = 0;          // generation; 0: unknown
  int64_t version = -1;           // of the confirmed generation
  int64_t attempted = 0;          // last generation tried, well or not
  absl::Status error;             // of that attempt
  bool retry = false;             // try the newest once more
  bool ask = false;               // what it holds
  std::vector<int64_t> releases;  // versions to free
  absl::Status release_error;     // of the first of them; the others wait until it answers something
  double pause_ms = 0;
  int full_copies = 0;
  bool retained = false;  // the last version that it confirmed
};

absl::Status PublisherOptions::Validate() const {
  if (deadline.count() <= 0) {
    return absl::InvalidArgumentError(absl::StrCat("deadline is ", deadline.count(), " ms: must be > 0"));
  }
  return codec.Validate();
}

Publisher::Publisher(PublisherOptions options, const base::Clock& clock) : options_(options), clock_(clock) {}

Publisher::~Publisher() {
  std::vector<std::unique_ptr<Engine>> engines;
  {
    base::MutexLock lock(mu_);
    stopping_ = true;
    engines.swap(engines_);
    changed_.SignalAll();
  }
  for (const std::unique_ptr<Engine>& engine : engines) engine->thread.join();
}

void Publisher::AddEngine(std::string name, std::shared_ptr<Sink> sink) {
  auto engine = std::make_unique<Engine>();
  engine->name = std::move(name);
  engine->sink = std::move(sink);
  base::MutexLock lock(mu_);
  engine->thread = std::thread([this, raw = engine.get()] { Run(*raw); });
  engines_.push_back(std::move(engine));
}

void Publisher::Run(Engine& engine) {
  base::MutexLock lock(mu_);
  while (!stopping_) {
    if (!engine.releases.empty() && engine.release_error.ok()) {
      SendReleases(engine);
    } else if (newest_ != nullptr && engine.confirmed != newest_->generation &&
               (engine.attempted != newest_->generation || engine.retry)) {
      SendUpdate(engine, newest_);
    } else if (engine.ask) {
      AskVersion(engine);
    } else {
      changed_.Wait(mu_);
    }
  }
}

// By value: it is held while nothing is locked and newest_ may be replaced.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
void Publisher::SendUpdate(Engine& engine, std::shared_ptr<Update> update) {
  const bool delta_fits = engine.confirmed == update->generation - 1 && engine.confirmed > 0;
  engine.attempted = update->generation;
  engine.retry = false;
  engine.busy = true;
  Retained retained = retained_;
  if (update->retain) retained.erase(update->snapshot->version());
  mu_.Unlock();

  bool full = !delta_fits;
  absl::StatusOr<v1::UpdateWeightsResponse> response = absl::FailedPreconditionError("");
  if (delta_fits) {
    response = engine.sink->Update(update->delta);
    const absl::StatusCode code = response.status().code();
    if (code == absl::StatusCode::kFailedPrecondition || code == absl::StatusCode::kDataLoss) {
      INGOT_LOG(warn, "engine {} refused the delta to version {}, sending a full copy: {}", engine.name,
                update->snapshot->version(), std::string(response.status().message()));
      full = true;
    }
  }
  if (full) response = SendFull(engine, *update, std::move(retained));
  if (response.ok() && response->version() != update->snapshot->version()) {
    response = absl::InternalError(absl::StrCat("it confirmed version ", response->version()));
  }

  mu_.Lock();
  engine.busy = false;
  const bool told = !engine.leased && engine.error.code() == response.status().code();
  engine.error = response.status();
  if (response.ok()) {
    engine.confirmed = update->generation;
    engine.version = update->snapshot->version();
    engine.pause_ms = response->pause_ms();
    engine.full_copies += full;
    engine.release_error = absl::OkStatus();
    engine.retained = update->retain && !response->not_retained();
    if (response->not_retained()) {
      INGOT_LOG(warn, "engine {} serves version {} but does not retain it: it holds as many as it may", engine.name,
                engine.version);
    }
    // It was asked to keep what has been released meanwhile.
    if (full && update->retain && !retained_.contains(engine.version)) engine.releases.push_back(engine.version);
    // Otherwise it took so long that a newer one is out: the loop sends that next, and the lease waits for it.
    if (newest_ == update && !engine.leased) {
      engine.leased = true;
      INGOT_LOG(info, "engine {} is leased at version {}", engine.name, update->snapshot->version());
    }
  } else {
    engine.confirmed = 0;
    engine.version = -1;
    leases_lost_ += engine.leased;
    if (!told) {
      INGOT_LOG(warn, "engine {} {} version {}, tried again: {}", engine.name,
                engine.leased ? "loses its lease at" : "did not take", update->snapshot->version(),
                response.status().ToString());
    }
    engine.leased = false;
  }
  changed_.SignalAll();
}

absl::StatusOr<v1::UpdateWeightsResponse> Publisher::SendFull(Engine& engine, Update& update, Retained retained) {
  // Before the newest: until there is one, calls pinned to what is missing are told to come again, not that it is lost.
  INGOT_RETURN_IF_ERROR(SendRetained(engine, &retained));
  INGOT_ASSIGN_OR_RETURN(const EncodedDelta* copy, update.FullCopy());
  INGOT_ASSIGN_OR_RETURN(v1::UpdateWeightsResponse response, engine.sink->Update(*copy));
  // After it too: what was live and not kept is gone now, and the engine may have been started again in between.
  INGOT_RETURN_IF_ERROR(SendRetained(engine, &retained));
  return response;
}

absl::Status Publisher::SendRetained(Engine& engine, Retained* retained) {
  if (retained->empty()) return absl::OkStatus();
  const absl::StatusOr<std::vector<HeldVersion>> held = engine.sink->HeldVersions();
  if (!held.ok()) return base::Annotate(held.status(), "it cannot say what it holds");
  for (auto it = retained->begin(); it != retained->end();) {
    const auto& [version, update] = *it;
    const auto is_this = [&, version = version, checksum = update->snapshot->checksum()](const HeldVersion& one) {
      return one.version == version && (one.checksum == checksum || one.checksum == 0);
    };
    if (std::any_of(held->begin(), held->end(), is_this)) {
      ++it;
      continue;
    }
    const absl::StatusOr<std::shared_ptr<const EncodedDelta>> copy = update->CopyBeside();
    const absl::Status sent = copy.ok() ? engine.sink->Update(**copy).status() : copy.status();
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

void Publisher::SendReleases(Engine& engine) {
  const int64_t version = engine.releases.front();
  engine.busy = true;
  mu_.Unlock();
  const absl::Status status = engine.sink->Release(version);
  mu_.Lock();
  engine.busy = false;
  if (status.ok()) std::erase(engine.releases, version);
  engine.release_error = base::Annotate(status, "engine " + engine.name);
  changed_.SignalAll();
}

void Publisher::AskVersion(Engine& engine) {
  engine.ask = false;
  engine.busy = true;
  mu_.Unlock();
  const absl::StatusOr<int64_t> version = engine.sink->LiveVersion();
  mu_.Lock();
  engine.busy = false;
  if (version.ok()) engine.release_error = absl::OkStatus();
  if (engine.leased && (!version.ok() || *version != engine.version)) {
    INGOT_LOG(warn, "engine {} loses its lease at version {}: {}", engine.name, engine.version,
              version.ok() ? absl::StrCat("it holds version ", *version) : version.status().ToString());
    engine.leased = false;
    engine.confirmed = 0;
    engine.version = -1;
    engine.retry = version.ok();
    ++leases_lost_;
  }
  changed_.SignalAll();
}

std::shared_ptr<Publisher::Update> Publisher::ToKeep(std::shared_ptr<const Snapshot> snapshot) const {
  auto update = std::make_shared<Update>();
  update->snapshot = std::move(snapshot);
  update->codec = options_.codec;
  return update;
}

void Publisher::Retain(std::shared_ptr<const Snapshot> snapshot) {
  const int64_t version = snapshot->version();
  base::MutexLock lock(mu_);
  retained_[version] = ToKeep(std::move(snapshot));
}

bool Publisher::WaitUntil(std::chrono::nanoseconds deadline, const std::function<bool()>& done) {
  while (!done()) {
    const std::chrono::nanoseconds left = deadline - clock_.Now();
    if (left.count() <= 0) return false;
    changed_.WaitFor(mu_, std::min<std::chrono::nanoseconds>(left, kLook));
  }
  return true;
}

absl::StatusOr<PublishStats> Publisher::Publish(std::shared_ptr<const Snapshot> snapshot, bool retain) {
  INGOT_RETURN_IF_ERROR(options_.Validate());
  const std::chrono::nanoseconds start = clock_.Now();
  INGOT_ASSIGN_OR_RETURN(const std::shared_ptr<Update> update, ToPublish(std::move(snapshot), retain));
  const std::chrono::nanoseconds encoded = clock_.Now();

  PublishStats stats;
  stats.version = update->snapshot->version();
  stats.wire_bytes = update->delta.wire_bytes();
  stats.full_bytes = update->snapshot->total_bytes();
  stats.density = update->delta.total_elements == 0
                      ? 0
                      : static_cast<double>(update->delta.changed_elements) / update->delta.total_elements;
  stats.encode_ms = Milliseconds(encoded - start);

  base::MutexLock lock(mu_);
  const bool again = newest_ == update;
  newest_ = update;
  if (retain) retained_[stats.version] = ToKeep(update->snapshot);
  std::vector<Engine*> needed;  // leased ones, and those that this is the first version for
  std::vector<Engine*> others;  // lost or still joining: waited for only if nobody is leased
  for (const std::unique_ptr<Engine>& engine : engines_) {
    if (retain) std::erase(engine->releases, stats.version);
    if (again) {
      if (!engine->leased && !engine->busy) engine->attempted = 0;
    } else {
      engine->full_copies = 0;
      engine->pause_ms = 0;
    }
    if (engine->leased || engine->attempted == 0) {
      needed.push_back(engine.get());
    } else {
      others.push_back(engine.get());
    }
  }
  changed_.SignalAll();
  const auto answered = [&](const Engine* engine) { return !engine->busy && engine->attempted == update->generation; };
  const std::chrono::nanoseconds deadline = encoded + options_.deadline;
  const auto all_answered = [&](const std::vector<Engine*>& engines) {
    return std::all_of(engines.begin(), engines.end(), answered);
  };
  if (!WaitUntil(deadline, [&] { return all_answered(needed); })) {
    for (Engine* engine : needed) {
      if (answered(engine) || !engine->leased) continue;
      engine->leased = false;
      engine->confirmed = 0;
      engine->version = -1;
      ++leases_lost_;
      INGOT_LOG(warn, "engine {} did not confirm version {} within {} ms and loses its lease", engine->name,
                stats.version, options_.deadline.count());
    }
  }
  const auto any_leased = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return std::any_of(engines_.begin(), engines_.end(), [](const auto& engine) { return engine->leased; });
  };
  if (!any_leased()) {
    // A fresh deadline: these started with the version, but the wait above may have used all of it up.
    WaitUntil(clock_.Now() + options_.deadline,
              [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return any_leased() || all_answered(others); });
  }
  if (!any_leased()) return WhyNowhere(stats.version);
  stats.retained = retain;
  for (const std::unique_ptr<Engine>& engine : engines_) {
    if (!engine->leased) continue;
    stats.retained &= engine->retained;
    stats.pause_ms = std::max(stats.pause_ms, engine->pause_ms);
    stats.full_copies += engine->full_copies;
  }
  stats.publish_ms = Milliseconds(clock_.Now() - encoded);
  stats.leases_lost = std::exchange(leases_lost_, 0);
  return stats;
}

absl::StatusOr<std::shared_ptr<Publisher::Update>> Publisher::ToPublish(std::shared_ptr<const Snapshot> snapshot,
                                                                        bool retain) {
  std::shared_ptr<Update> before;
  {
    base::MutexLock lock(mu_);
    before = newest_;
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
  INGOT_ASSIGN_OR_RETURN(update->delta, Encode(base, *snapshot, retain, options_.codec));
  update->snapshot = std::move(snapshot);
  return update;
}

absl::Status Publisher::WhyNowhere(int64_t version) {
  const std::string what = absl::StrCat("version ", version, " is live on none of ", engines_.size(), " engines");
  if (engines_.empty()) return absl::UnavailableError(what);
  // One that may take it yet is worth waiting for.
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
  changed_.SignalAll();
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
  changed_.SignalAll();
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
