#include "weights/stores/follower.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/printable.h"
#include "base/random.h"

namespace ingot::weights {
namespace {

double Milliseconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

// Returns the version at the end of a route, or none if the route is empty.
HeldVersion EndOf(const v1::VersionRoute& route) {
  return route.steps_size() == 0 ? HeldVersion() : FromName(route.steps(route.steps_size() - 1).name());
}

}  // namespace

absl::Status FollowerOptions::Validate() const {
  if (!IsObjectKey(run) || !IsObjectKey(engine)) {
    return absl::InvalidArgumentError(absl::StrCat("the run's name '", run, "' or the engine's name '", engine,
                                                   "' cannot be part of an object's name"));
  }
  for (const auto& [name, span] : {std::pair("poll", poll), {"heartbeat", heartbeat}, {"retry", retry}}) {
    if (span.count() <= 0) {
      return absl::InvalidArgumentError(absl::StrCat(name, " is ", span.count(), " ms: must be > 0"));
    }
  }
  return codec.Validate();
}

absl::StatusOr<std::unique_ptr<Follower>> Follower::Start(std::shared_ptr<ObjectStore> store, Sink& engine,
                                                          FollowerOptions options, const base::Clock& clock) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  std::unique_ptr<Follower> follower(new Follower(std::move(store), engine, std::move(options), clock));
  Follower* const self = follower.get();
  self->Beat();
  self->looking_ = self->threads_.PostEvery(self->options_.poll, [self] { self->Poll(); });
  self->beating_ = self->threads_.PostEvery(self->options_.heartbeat, [self] { self->Beat(); });
  return follower;
}

Follower::Follower(std::shared_ptr<ObjectStore> store, Sink& engine, FollowerOptions options, const base::Clock& clock)
    : store_(std::move(store)),
      engine_(engine),
      options_(std::move(options)),
      clock_(clock),
      silence_("the acknowledgment of versions", clock),
      threads_({.name = "follower", .threads = 2}, clock) {
  ack_.set_engine(options_.engine);
  ack_.set_start(base::RandomHex(8));
}

Follower::~Follower() {
  looking_.Cancel();
  beating_.Cancel();
}

// --- Following ---

void Follower::Poll() {
  const absl::StatusOr<StoredObject> object = store_->Get(LiveKey(options_.run), kMaxPointerBytes);
  if (absl::IsNotFound(object.status())) return;  // the trainer has not published anything yet
  if (!object.ok()) return Log(object.status(), "cannot read the live versions");
  const absl::StatusOr<v1::LiveVersions> live = ParseLive(object->bytes, options_.run);
  if (!live.ok()) return Log(live.status(), store_->Describe().c_str());
  // Ignores the weights of an earlier run with the same name.
  if (!options_.history.empty() && live->history() != options_.history) return;
  const bool done = live->sequence() == done_.sequence() && live->history() == done_.history();
  if (done || clock_.Now() < next_try_) return;
  Cost cost;
  const absl::Status status = Follow(*live, &cost);
  if (status.ok()) {
    done_ = *live;
    logged_.clear();
  } else {
    next_try_ = clock_.Now() + options_.retry;
    Log(status, "the engine did not accept the newest version; retrying");
  }
  Acknowledge(*live, status, cost);
}

absl::Status Follower::Follow(const v1::LiveVersions& live, Cost* cost) {
  // Before the newest version, as in the publisher: while the engine has no newest version, it asks requests that are
  // pinned to a missing version to retry.
  INGOT_RETURN_IF_ERROR(HoldRetained(live, cost));
  // A resumed trainer has retained versions before it has a newest version.
  if (!live.has_newest()) return absl::OkStatus();
  INGOT_RETURN_IF_ERROR(TakeNewest(live, cost));
  // Again after the newest version, because a live version that was not retained yet is now gone.
  INGOT_RETURN_IF_ERROR(HoldRetained(live, cost));
  return ReleaseOthers(live);
}

absl::Status Follower::HoldRetained(const v1::LiveVersions& live, Cost* cost) {
  INGOT_ASSIGN_OR_RETURN(const std::vector<HeldVersion> held, engine_.HeldVersions());
  for (const v1::VersionRoute& route : live.retained()) {
    const HeldVersion version = EndOf(route);
    const std::string folder = VersionFolder(options_.run, version);
    const bool holds = std::find(held.begin(), held.end(), version) != held.end();
    if (holds || rejected_.contains(folder) || version == EndOf(live.newest())) continue;
    INGOT_ASSIGN_OR_RETURN(const std::shared_ptr<const Snapshot> snapshot, Restore(route, cost));
    INGOT_ASSIGN_OR_RETURN(EncodedDelta beside, EncodeHeld(*snapshot, options_.codec));
    const absl::Status sent = Send(std::move(beside), true, cost);
    if (absl::IsResourceExhausted(sent)) {
      INGOT_LOG(warn, "the engine serves without version {}, which it should retain: {}", version.version,
                std::string(sent.message()));
      rejected_.insert(folder);
      continue;
    }
    INGOT_RETURN_IF_ERROR(sent);
    retained_.insert(folder);
  }
  return absl::OkStatus();
}

absl::Status Follower::TakeNewest(const v1::LiveVersions& live, Cost* cost) {
  INGOT_ASSIGN_OR_RETURN(const HeldVersion held, Live());
  const int at = StepOf(live.newest(), held);
  if (at < 0) return TakeAnchor(live, cost);
  const absl::Status taken = TakeDeltas(live, at, cost);
  if (!absl::IsFailedPrecondition(taken) && !absl::IsDataLoss(taken)) return taken;
  INGOT_RETURN_IF_ERROR(TakeAnchor(live, cost));
  INGOT_LOG(warn, "fetched the last full copy, because a delta does not apply: {}", std::string(taken.message()));
  return absl::OkStatus();
}

absl::Status Follower::TakeDeltas(const v1::LiveVersions& live, int from, Cost* cost) {
  const v1::VersionRoute& route = live.newest();
  const auto retains = [&](const HeldVersion& version) {
    return std::any_of(live.retained().begin(), live.retained().end(),
                       [&](const v1::VersionRoute& one) { return EndOf(one) == version; });
  };
  for (int i = from + 1; i < route.steps_size(); ++i) {
    const HeldVersion version = FromName(route.steps(i).name());
    INGOT_ASSIGN_OR_RETURN(EncodedDelta delta, Load(version, VersionKind::kDelta, cost));
    INGOT_RETURN_IF_ERROR(Send(std::move(delta), retains(version), cost));
  }
  // The newest must be retained but was not when it went live. An update to the live version retains it.
  const HeldVersion newest = EndOf(route);
  if (!retains(newest) || retained_.contains(VersionFolder(options_.run, newest))) return absl::OkStatus();
  EncodedDelta same;
  same.header.mutable_target()->set_version(newest.version);
  same.header.mutable_target()->set_checksum(newest.checksum);
  same.header.set_base_version(newest.version);
  same.header.set_base_checksum(newest.checksum);
  return Send(std::move(same), true, cost);
}

absl::Status Follower::TakeAnchor(const v1::LiveVersions& live, Cost* cost) {
  const v1::VersionRoute& route = live.newest();
  const HeldVersion newest = EndOf(route);
  const bool retain = std::any_of(live.retained().begin(), live.retained().end(),
                                  [&](const v1::VersionRoute& one) { return EndOf(one) == newest; });
  if (LastAnchor(route) == route.steps_size() - 1) {
    INGOT_ASSIGN_OR_RETURN(EncodedDelta anchor, Load(newest, VersionKind::kAnchor, cost));
    return Send(std::move(anchor), retain, cost);
  }
  const std::chrono::nanoseconds start = clock_.Now();
  INGOT_ASSIGN_OR_RETURN(const std::shared_ptr<const Snapshot> snapshot, Restore(route, cost));
  INGOT_ASSIGN_OR_RETURN(EncodedDelta full, Encode(nullptr, *snapshot, retain, options_.codec));
  full.fetch = clock_.Now() - start;
  return Send(std::move(full), retain, cost);
}

absl::Status Follower::Send(EncodedDelta delta, bool retain, Cost* cost) {
  delta.header.set_retain(retain);
  delta.header.set_checksum(HeaderChecksum(delta.header));
  const HeldVersion target = TargetOf(delta.header);
  INGOT_ASSIGN_OR_RETURN(const v1::UpdateWeightsResponse response, engine_.Update(delta));
  cost->apply_ms += response.apply_ms();
  cost->pause_ms = std::max(cost->pause_ms, response.pause_ms());
  cost->not_retained = response.not_retained();
  if (retain && !response.not_retained()) retained_.insert(VersionFolder(options_.run, target));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Snapshot>> Follower::Restore(const v1::VersionRoute& route, Cost* cost) {
  const int anchor = LastAnchor(route);
  std::shared_ptr<const Snapshot> snapshot;
  for (int i = anchor; i < route.steps_size(); ++i) {
    INGOT_ASSIGN_OR_RETURN(
        const EncodedDelta delta,
        Load(FromName(route.steps(i).name()), i == anchor ? VersionKind::kAnchor : VersionKind::kDelta, cost));
    INGOT_ASSIGN_OR_RETURN(snapshot, Apply(snapshot, delta, options_.codec));
  }
  return snapshot;
}

absl::StatusOr<EncodedDelta> Follower::Load(const HeldVersion& name, VersionKind kind, Cost* cost) {
  const std::chrono::nanoseconds start = clock_.Now();
  absl::StatusOr<EncodedDelta> loaded =
      LoadVersion(*store_, options_.run, name, kind, options_.codec, &cost->fetched_bytes);
  const std::chrono::nanoseconds fetch = clock_.Now() - start;
  cost->fetch_ms += Milliseconds(fetch);
  if (loaded.ok()) loaded->fetch = fetch;
  return loaded;
}

absl::StatusOr<HeldVersion> Follower::Live() {
  INGOT_ASSIGN_OR_RETURN(const int64_t version, engine_.LiveVersion());
  INGOT_ASSIGN_OR_RETURN(const std::vector<HeldVersion> held, engine_.HeldVersions());
  for (const HeldVersion& one : held) {
    if (one.version == version) return one;
  }
  return HeldVersion();
}

absl::Status Follower::ReleaseOthers(const v1::LiveVersions& live) {
  std::set<std::string> wanted;
  for (const v1::VersionRoute& route : live.retained()) wanted.insert(VersionFolder(options_.run, EndOf(route)));
  INGOT_ASSIGN_OR_RETURN(const std::vector<HeldVersion> held, engine_.HeldVersions());
  for (const HeldVersion& version : held) {
    const std::string folder = VersionFolder(options_.run, version);
    if (wanted.contains(folder) || !retained_.contains(folder)) continue;
    INGOT_RETURN_IF_ERROR(engine_.Release(version.version));
    rejected_.clear();  // memory is available again
  }
  std::erase_if(retained_, [&](const std::string& folder) { return !wanted.contains(folder); });
  return absl::OkStatus();
}

// --- The acknowledgement ---

void Follower::Acknowledge(const v1::LiveVersions& live, const absl::Status& status, const Cost& cost) {
  const absl::StatusOr<HeldVersion> newest = Live();
  const absl::StatusOr<std::vector<HeldVersion>> held = engine_.HeldVersions();
  base::MutexLock lock(mu_);
  ack_.set_history(live.history());
  ack_.set_sequence(live.sequence());
  ack_.set_error_code(static_cast<int32_t>(status.code()));
  ack_.set_error(base::Printable({status.message().data(), status.message().size()}));
  ack_.clear_live();
  if (newest.ok() && newest->version >= 0) *ack_.mutable_live() = NameOf(*newest);
  ack_.clear_held();
  if (held.ok()) {
    for (const HeldVersion& version : *held) *ack_.add_held() = NameOf(version);
  }
  ack_.set_not_retained(cost.not_retained);
  ack_.set_fetch_ms(cost.fetch_ms);
  ack_.set_apply_ms(cost.apply_ms);
  ack_.set_pause_ms(cost.pause_ms);
  ack_.set_fetched_bytes(cost.fetched_bytes);
  WriteAck();
}

void Follower::Beat() {
  base::MutexLock lock(mu_);
  WriteAck();
}

// The next heartbeat replaces a failed write.
void Follower::WriteAck() {
  ack_.set_beat(ack_.beat() + 1);
  silence_.Note(store_->Put(AckKey(options_.run, options_.engine), PrintAck(ack_)));
}

void Follower::Log(const absl::Status& status, const char* what) {
  std::string text = absl::StrCat(what, ": ", status.ToString());
  if (text == logged_) return;
  INGOT_LOG(warn, "{}", text);
  logged_ = std::move(text);
}

}  // namespace ingot::weights
