#include "weights/stores/object_sink.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "base/mutex.h"

namespace ingot::weights {
namespace {

absl::Status ErrorOf(const v1::EngineAck& ack) {
  return {static_cast<absl::StatusCode>(ack.error_code()), ack.error()};
}

bool Holds(const v1::EngineAck& ack, const HeldVersion& version) {
  return std::any_of(ack.held().begin(), ack.held().end(),
                     [&](const v1::VersionName& held) { return FromName(held) == version; });
}

class ObjectSink final : public Sink {
 public:
  ObjectSink(std::shared_ptr<VersionWriter> writer, std::string engine, ObjectSinkOptions options,
             const base::Clock& clock)
      : writer_(std::move(writer)), engine_(std::move(engine)), options_(options), clock_(clock) {}

  absl::StatusOr<v1::UpdateWeightsResponse> Update(const EncodedDelta& delta) override {
    const HeldVersion target = TargetOf(delta.header);
    if (delta.header.beside()) {
      INGOT_ASSIGN_OR_RETURN(const int64_t sequence, writer_->HoldVersion(delta));
      INGOT_ASSIGN_OR_RETURN(const v1::EngineAck ack, Await(sequence));
      if (Holds(ack, target)) return ResponseOf(ack, target);
      INGOT_RETURN_IF_ERROR(ErrorOf(ack));
      return absl::ResourceExhaustedError(absl::StrCat("engine ", engine_, " has no memory for version ",
                                                       target.version, " in addition to the newest"));
    }
    const bool heals = IsFullCopy(delta.header) && TakesAnchorOf(target);
    INGOT_ASSIGN_OR_RETURN(const int64_t sequence, writer_->Publish(delta, heals));
    INGOT_ASSIGN_OR_RETURN(const v1::EngineAck ack, Await(sequence));
    const bool taken = ack.has_live() && FromName(ack.live()) == target;
    if (!taken) NoteFailure(target, static_cast<absl::StatusCode>(ack.error_code()));
    if (taken) return ResponseOf(ack, target);
    INGOT_RETURN_IF_ERROR(ErrorOf(ack));
    return absl::UnavailableError(
        absl::StrCat("engine ", engine_, " moved on to version ", ack.live().version(), " in the meantime"));
  }

  absl::Status Release(int64_t version) override {
    INGOT_ASSIGN_OR_RETURN(const int64_t sequence, writer_->Release(version));
    return Await(sequence).status();
  }

  absl::StatusOr<int64_t> LiveVersion() override {
    INGOT_ASSIGN_OR_RETURN(const v1::EngineAck ack, ReadAck());
    return ack.has_live() ? ack.live().version() : -1;
  }

  absl::StatusOr<std::vector<HeldVersion>> HeldVersions() override {
    INGOT_ASSIGN_OR_RETURN(const v1::EngineAck ack, ReadAck());
    std::vector<HeldVersion> held;
    for (const v1::VersionName& name : ack.held()) held.push_back(FromName(name));
    return held;
  }

 private:
  static v1::UpdateWeightsResponse ResponseOf(const v1::EngineAck& ack, const HeldVersion& version) {
    v1::UpdateWeightsResponse response;
    response.set_version(version.version);
    response.set_fetch_ms(ack.fetch_ms());
    response.set_apply_ms(ack.apply_ms());
    response.set_pause_ms(ack.pause_ms());
    response.set_not_retained(ack.not_retained());
    return response;
  }

  // Returns whether the engine failed on the version's objects, so that a new anchor may help. True only once per
  // version.
  bool TakesAnchorOf(const HeldVersion& version) {
    base::MutexLock lock(mu_);
    if (failed_ != version || healed_ == version) return false;
    healed_ = version;
    return true;
  }

  void NoteFailure(const HeldVersion& version, absl::StatusCode code) {
    if (code != absl::StatusCode::kDataLoss && code != absl::StatusCode::kNotFound &&
        code != absl::StatusCode::kFailedPrecondition) {
      return;
    }
    base::MutexLock lock(mu_);
    failed_ = version;
  }

  // Returns the engine's last acknowledgement, if the engine is alive.
  absl::StatusOr<v1::EngineAck> ReadAck() {
    const std::string key = AckKey(writer_->run(), engine_);
    const absl::StatusOr<StoredObject> object = writer_->store().Get(key, kMaxPointerBytes);
    if (absl::IsNotFound(object.status())) {
      return absl::UnavailableError(absl::StrCat("engine ", engine_, " has not written an acknowledgment: ",
                                                 writer_->store().Describe(), " has no object '", key, "'"));
    }
    INGOT_RETURN_IF_ERROR(object.status());
    INGOT_ASSIGN_OR_RETURN(v1::EngineAck ack, ParseAck(object->bytes, engine_));
    base::MutexLock lock(mu_);
    const std::chrono::nanoseconds now = clock_.Now();
    if (ack.start() != start_ || ack.beat() != beat_) {
      start_ = ack.start();
      beat_ = ack.beat();
      heard_ = now;
    }
    if (now - heard_ < options_.silence) return ack;
    return absl::UnavailableError(absl::StrCat("engine ", engine_, " is unresponsive: '", key, "' has not changed for ",
                                               options_.silence.count(), " ms"));
  }

  // Waits until the engine has followed `sequence` of `live`, or a later one.
  absl::StatusOr<v1::EngineAck> Await(int64_t sequence) {
    const std::chrono::nanoseconds deadline = clock_.Now() + options_.deadline;
    while (true) {
      absl::StatusOr<v1::EngineAck> ack = ReadAck();
      if (!ack.ok()) return ack;
      if (ack->history() == writer_->history() && ack->sequence() >= sequence) return ack;
      if (clock_.Now() >= deadline) {
        return absl::DeadlineExceededError(
            absl::StrCat("engine ", engine_, " has not acknowledged within ", options_.deadline.count(), " ms"));
      }
      base::MutexLock lock(mu_);
      clock_.WaitUntil(never_, mu_, std::min(deadline, clock_.Now() + options_.poll));
    }
  }

  const std::shared_ptr<VersionWriter> writer_;
  const std::string engine_;
  const ObjectSinkOptions options_;
  const base::Clock& clock_;
  base::Mutex mu_;
  base::CondVar never_;  // used only to wait on the clock
  // The last heartbeat, and when it was first seen.
  std::string start_ ABSL_GUARDED_BY(mu_);
  int64_t beat_ ABSL_GUARDED_BY(mu_) = -1;
  std::chrono::nanoseconds heard_ ABSL_GUARDED_BY(mu_){0};
  std::optional<HeldVersion> failed_ ABSL_GUARDED_BY(mu_), healed_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

absl::Status ObjectSinkOptions::Validate() const {
  for (const auto& [name, limit] : {std::pair("deadline", deadline), {"poll", poll}, {"silence", silence}}) {
    if (limit.count() <= 0) {
      return absl::InvalidArgumentError(absl::StrCat(name, " is ", limit.count(), " ms: must be > 0"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Sink>> NewObjectSink(std::shared_ptr<VersionWriter> writer, std::string engine,
                                                    ObjectSinkOptions options, const base::Clock& clock) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  return std::make_unique<ObjectSink>(std::move(writer), std::move(engine), options, clock);
}

}  // namespace ingot::weights
