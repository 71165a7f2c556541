// The publisher's own structs (publisher.h), which its two source files share.
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

// One version on its way. Constant after construction, except for the full copies: the first engine that needs a copy
// encodes it. A delta without a base is already a full copy.
struct Publisher::Update {
  int64_t generation = 0;  // counts the updates from 1; 0 = only a retained version
  std::shared_ptr<const Snapshot> snapshot;
  bool retain = false;
  CodecOptions codec;
  std::optional<EncodedDelta> delta;  // from the previous generation, or a full copy; none if all engines share memory
  double density = 0;                 // of the delta

  base::Mutex mu;
  std::optional<EncodedDelta> full ABSL_GUARDED_BY(mu);          // kept: a lost engine is retried every second
  std::weak_ptr<const EncodedDelta> beside ABSL_GUARDED_BY(mu);  // lives while it is being sent to an engine

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

  absl::StatusOr<std::shared_ptr<const EncodedDelta>> CopyBeside() {
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
  bool retry = false;                   // try the newest once more
  bool ask = false;                     // ask the engine for its version
  std::vector<int64_t> releases;        // versions to free
  absl::Status release_error;           // of releases.front(); while it is set, no release is sent
  v1::UpdateWeightsResponse answer;     // of the confirmed generation
  int64_t reached = -1;                 // the last version that it confirmed; -1 = none
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
  RetainedUpdates retained = {};        // kUpdate: versions that the engine also holds
};

// True for an error that an engine returns again on every retry. Any other error may pass: the engine is restarting, or
// was too slow.
bool Rejects(const absl::Status& status);

}  // namespace ingot::weights
