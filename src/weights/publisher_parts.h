// Defines Publisher's private structs (publisher.h), which its two source files share.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "weights/publisher.h"

namespace ingot::weights {

// A version that is being sent. Constant after construction, except for the full copies, which are encoded when an
// engine first needs one. A delta without a base is already a full copy.
struct Publisher::Update {
  int64_t generation = 0;  // counts the updates from 1; 0 = only a retained version
  std::shared_ptr<const Snapshot> snapshot;
  bool retain = false;
  CodecOptions codec;
  std::optional<EncodedDelta> delta;  // from the previous generation, or a full copy; none if all engines share memory
  double density = 0;                 // density of the delta

  base::Mutex mu;
  std::optional<EncodedDelta> full ABSL_GUARDED_BY(mu);          // kept because a lost engine is retried every second
  std::weak_ptr<const EncodedDelta> beside ABSL_GUARDED_BY(mu);  // valid while it is being sent to an engine

  absl::StatusOr<const EncodedDelta*> FullCopy() {
    if (delta.has_value() && IsFullCopy(delta->header)) return &*delta;
    base::MutexLock lock(mu);
    if (!full.has_value()) {
      INGOT_ASSIGN_OR_RETURN(full, EncodeFull(retain));
    }
    return &*full;
  }

  absl::StatusOr<EncodedDelta> EncodeFull(bool retains) const {
    if (snapshot->here()) return Encode(nullptr, *snapshot, retains, codec);
    return NameFull(snapshot->elsewhere(), retains);
  }

  absl::StatusOr<std::shared_ptr<const EncodedDelta>> CopyToHold() {
    base::MutexLock lock(mu);
    std::shared_ptr<const EncodedDelta> copy = beside.lock();
    if (copy == nullptr) {
      INGOT_ASSIGN_OR_RETURN(EncodedDelta encoded, EncodeFull(true));
      encoded.header.set_beside(true);
      encoded.header.set_checksum(HeaderChecksum(encoded.header));
      copy = std::make_shared<const EncodedDelta>(std::move(encoded));
      beside = copy;
    }
    return copy;
  }
};

// All fields except the first two are guarded by Publisher::mu_.
struct Publisher::Engine {
  Engine(std::string name, std::shared_ptr<Sink> sink) : name(std::move(name)), sink(std::move(sink)) {}

  const std::string name;
  const std::shared_ptr<Sink> sink;

  bool scheduled = false;  // has a task on the executor
  bool leased = false;
  bool busy = false;                    // inside a call to the sink
  int64_t confirmed = 0;                // confirmed generation; 0 = unknown
  int64_t version = -1;                 // version of the confirmed generation; -1 = unknown
  int64_t attempted = 0;                // the last generation tried, confirmed or not; 0 = none
  absl::Status error;                   // the result of that attempt
  std::chrono::nanoseconds sent_at{0};  // start of that attempt
  bool retry = false;                   // true = try the newest once more
  bool ask = false;                     // true = ask the engine for its version
  std::vector<int64_t> releases;        // versions to free
  absl::Status release_error;           // the error from releases.front(); while it is set, no release is sent
  v1::UpdateWeightsResponse answer;     // for the confirmed generation
  int64_t reached = -1;                 // the last version that it confirmed; -1 = none
  int full_copies = 0;
  bool retained = false;  // true = it retains the last version that it confirmed
};

// One or more consecutive calls to an engine.
struct Publisher::Job {
  enum class Kind { kNone, kRelease, kUpdate, kAsk };
  Kind kind = Kind::kNone;
  int64_t release = -1;                 // kRelease: the version to free
  std::shared_ptr<Update> update = {};  // kUpdate
  bool delta_fits = false;              // kUpdate: the engine has the delta's base
  bool holds_base = false;              // kUpdate: the engine has confirmed a version since it started
  RetainedUpdates retained = {};        // kUpdate: versions that the engine also keeps
};

// Returns whether the engine would return this error on every retry. Other errors may be temporary: the engine may be
// restarting or too slow.
bool Rejects(const absl::Status& status);

}  // namespace ingot::weights
