#include "weights/publisher.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/log.h"
#include "base/waits.h"
#include "weights/publisher_parts.h"

namespace ingot::weights {
namespace {

double Milliseconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace

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

// --- Publishing ---

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

Publisher::PublishTargets Publisher::Schedule(const std::shared_ptr<Update>& update, bool retain) {
  const int64_t version = update->snapshot->version();
  PublishTargets targets;
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
      targets.needed.push_back(engine.get());
    } else {
      targets.others.push_back(engine.get());
    }
  }
  ScheduleAll();
  return targets;
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

  const PublishTargets targets = Schedule(update, retain);
  if (before != update->snapshot && !update->delta.has_value()) {
    update->density = Density(before.get(), *update->snapshot);  // while the engines apply the version
  }
  stats.density = update->density;

  base::MutexLock lock(mu_);
  const auto answered = [&](const Engine* engine) { return !engine->busy && engine->attempted == update->generation; };
  const std::chrono::nanoseconds deadline = encoded + options_.deadline;
  const auto all_answered = [&](const std::vector<Engine*>& engines) {
    return std::all_of(engines.begin(), engines.end(), answered);
  };
  base::Wait wait(absl::StrCat("engines to take version ", stats.version), base::WaitKind::kWork);
  const auto needed = [&]() {
    std::vector<std::string> names;
    for (const Engine* engine : targets.needed) {
      if (!answered(engine)) names.push_back(engine->name);
    }
    if (!names.empty()) wait.Because(absl::StrCat(absl::StrJoin(names, ", "), " to take version ", stats.version));
    return names.empty();
  };
  if (!WaitUntil(deadline, needed)) {
    for (Engine* engine : targets.needed) {
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
    // A new deadline, because the wait above may have exhausted the first one.
    WaitUntil(clock_.Now() + options_.deadline,
              [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return any_leased() || all_answered(targets.others); });
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
    // An engine without a version lags by all of them.
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
    return absl::InvalidArgumentError(absl::StrCat("version ", snapshot->version(), " published after version ",
                                                   base->version(), ": versions must increase"));
  }
  if (base != nullptr && snapshot->version() == base->version() && retain == before->retain) return before;
  auto update = std::make_shared<Update>();
  update->generation = before == nullptr ? 1 : before->generation + 1;
  update->retain = retain;
  update->codec = options_.codec;
  if (encodes || !snapshot->here()) {
    if (snapshot->here()) {
      INGOT_ASSIGN_OR_RETURN(update->delta, Encode(base, *snapshot, retain, options_.codec));
    } else {
      update->delta = snapshot->elsewhere();
      update->delta->header.set_retain(retain);
      update->delta->header.set_checksum(HeaderChecksum(update->delta->header));
    }
    const EncodedDelta& delta = *update->delta;
    update->density = delta.total_elements == 0
                          ? 0
                          : static_cast<double>(delta.changed_elements) / static_cast<double>(delta.total_elements);
  }
  update->snapshot = std::move(snapshot);
  return update;
}

absl::Status Publisher::NoLeaseError(int64_t version) {
  const std::string what = absl::StrCat("version ", version, " is not live on any of ", engines_.size(), " engines");
  if (engines_.empty()) return absl::UnavailableError(what);
  // Returns UNAVAILABLE if an engine may still accept the version.
  const auto found = std::find_if(engines_.begin(), engines_.end(),
                                  [](const auto& engine) { return engine->busy || !Rejects(engine->error); });
  if (found == engines_.end()) {
    return base::Annotate(engines_.front()->error, absl::StrCat(what, "; engine ", engines_.front()->name));
  }
  const Engine& engine = **found;
  return absl::UnavailableError(absl::StrCat(what, "; engine ", engine.name, ": ",
                                             engine.busy ? "it has not responded" : engine.error.ToString()));
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
  const auto reported = [&](const Engine* engine) {
    return !engine->release_error.ok() ||
           std::find(engine->releases.begin(), engine->releases.end(), version) == engine->releases.end();
  };
  const base::Wait wait(absl::StrCat("engines to free version ", version), base::WaitKind::kWork);
  if (!WaitUntil(clock_.Now() + options_.deadline, [&] { return std::all_of(asked.begin(), asked.end(), reported); })) {
    return absl::DeadlineExceededError(absl::StrCat("not every engine freed version ", version, " within ",
                                                    options_.deadline.count(),
                                                    " ms; they will do so when they respond again"));
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
