// Implements the publisher's task for one engine: the calls that it makes, and how it handles the answers.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "weights/publisher_parts.h"

namespace ingot::weights {

bool Rejects(const absl::Status& status) {
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
        QueryVersion(engine);
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
      INGOT_LOG(warn, "engine {} rejected the delta to version {}, sending a full copy: {}", engine.name, version,
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
    INGOT_LOG(warn, "engine {} {} version {}, retrying: {}", engine.name,
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
    INGOT_LOG(warn, "engine {} serves version {} but cannot retain it: it holds its maximum number of versions",
              engine.name, engine.version);
  }
  // The version was released while the request to retain it was in flight.
  if ((full || engine.sink->SharesMemory()) && update->retain && !retained_.contains(engine.version))
    engine.releases.push_back(engine.version);
  // If there is a newer version, the engine gets it next, and its lease waits for that version.
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

absl::StatusOr<v1::UpdateWeightsResponse> Publisher::SendFull(Engine& engine, Update& update,
                                                              RetainedUpdates retained) {
  // Sent before the newest version. For calls pinned to a missing version, an engine without a newest version asks them
  // to retry, while an engine with one reports that the version is lost.
  INGOT_RETURN_IF_ERROR(SendRetained(engine, &retained));
  v1::UpdateWeightsResponse response;
  if (engine.sink->SharesMemory()) {
    INGOT_ASSIGN_OR_RETURN(response,
                           engine.sink->Share(update.snapshot, update.retain ? Place::kLiveRetained : Place::kLive));
  } else {
    INGOT_ASSIGN_OR_RETURN(const EncodedDelta* copy, update.FullCopy());
    INGOT_ASSIGN_OR_RETURN(response, engine.sink->Update(*copy));
  }
  // Sent again afterwards, because a live version that was not retained is now gone, and the engine may have restarted.
  INGOT_RETURN_IF_ERROR(SendRetained(engine, &retained));
  return response;
}

absl::Status Publisher::SendHeld(Engine& engine, Update& update) {
  if (engine.sink->SharesMemory()) return engine.sink->Share(update.snapshot, Place::kBeside).status();
  INGOT_ASSIGN_OR_RETURN(const std::shared_ptr<const EncodedDelta> copy, update.CopyToHold());
  return engine.sink->Update(*copy).status();
}

absl::Status Publisher::SendRetained(Engine& engine, RetainedUpdates* retained) {
  if (retained->empty()) return absl::OkStatus();
  const absl::StatusOr<std::vector<HeldVersion>> held = engine.sink->HeldVersions();
  if (!held.ok()) return base::Annotate(held.status(), "cannot list its versions");
  for (auto it = retained->begin(); it != retained->end();) {
    const auto& [version, update] = *it;
    const auto is_same = [&, version = version, checksum = update->snapshot->checksum()](const HeldVersion& one) {
      return one.version == version && (one.checksum == checksum || one.checksum == 0);
    };
    if (std::any_of(held->begin(), held->end(), is_same)) {
      ++it;
      continue;
    }
    const absl::Status sent = SendHeld(engine, *update);
    if (sent.ok()) {
      ++it;
      continue;
    }
    if (!Rejects(sent) && !absl::IsResourceExhausted(sent)) {
      return base::Annotate(sent, absl::StrCat("version ", version, ", which it should retain"));
    }
    INGOT_LOG(warn, "engine {} serves without version {}, which it should retain: {}", engine.name, version,
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

void Publisher::QueryVersion(Engine& engine) {
  const absl::StatusOr<int64_t> version = engine.sink->LiveVersion();
  base::MutexLock lock(mu_);
  engine.busy = false;
  changed_.SignalAll();
  if (version.ok()) engine.release_error = absl::OkStatus();
  if (!engine.leased || (version.ok() && *version == engine.version)) return;
  INGOT_LOG(warn, "engine {} loses its lease at version {}: {}", engine.name, engine.version,
            version.ok() ? absl::StrCat("it has version ", *version) : version.status().ToString());
  EndLease(engine);
  engine.retry = version.ok();
}

}  // namespace ingot::weights
