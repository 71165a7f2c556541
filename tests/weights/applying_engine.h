// Engines for tests of transports.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "weights/sink.h"

namespace ingot::weights::testing {

// Remembers the versions that it is given.
class HoldingEngine : public Sink {
 public:
  absl::Status Release(int64_t version) override {
    base::MutexLock lock(mu_);
    retained_.erase(version);
    return absl::OkStatus();
  }

  absl::StatusOr<int64_t> LiveVersion() override {
    base::MutexLock lock(mu_);
    return live_ == nullptr ? -1 : live_->version();
  }

  absl::StatusOr<std::vector<HeldVersion>> HeldVersions() override {
    base::MutexLock lock(mu_);
    std::vector<HeldVersion> held;
    if (live_ != nullptr) held.push_back({live_->version(), live_->checksum()});
    for (const auto& [version, snapshot] : retained_) {
      if (snapshot != live_) held.push_back({version, snapshot->checksum()});
    }
    return held;
  }

  std::shared_ptr<const Snapshot> live() {
    base::MutexLock lock(mu_);
    return live_;
  }
  std::vector<std::string> log() {
    base::MutexLock lock(mu_);
    return log_;
  }

 protected:
  base::Mutex mu_;
  std::shared_ptr<const Snapshot> live_ ABSL_GUARDED_BY(mu_);
  std::map<int64_t, std::shared_ptr<const Snapshot>> retained_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> log_ ABSL_GUARDED_BY(mu_);
};

// Applies the deltas that it is sent.
class ApplyingEngine final : public HoldingEngine {
 public:
  // `room`: the number of versions that it can hold next to the live one.
  explicit ApplyingEngine(size_t room = 4) : room_(room) {}

  absl::StatusOr<v1::UpdateWeightsResponse> Update(const EncodedDelta& delta) override {
    base::MutexLock lock(mu_);
    v1::UpdateWeightsResponse response;
    response.set_version(delta.header.target().version());
    const bool beside = delta.header.beside();
    if (beside && retained_.size() >= room_) return absl::ResourceExhaustedError("no room");
    const bool same = live_ != nullptr && live_->version() == delta.header.target().version() &&
                      live_->checksum() == delta.header.target().checksum();
    std::shared_ptr<const Snapshot> next = live_;
    if (beside || !same) {
      INGOT_ASSIGN_OR_RETURN(next, Apply(beside ? nullptr : live_, delta));
      log_.push_back((beside                     ? "beside "
                      : IsFullCopy(delta.header) ? "full "
                                                 : "delta ") +
                     std::to_string(next->version()));
    }
    if (!beside) live_ = next;
    if (beside || delta.header.retain()) {
      if (beside || retained_.size() < room_) {
        retained_[next->version()] = next;
      } else {
        response.set_not_retained(true);
      }
    }
    return response;
  }

  std::vector<int64_t> retained() {
    base::MutexLock lock(mu_);
    std::vector<int64_t> versions;
    for (const auto& [version, snapshot] : retained_) versions.push_back(version);
    return versions;
  }

 private:
  const size_t room_;
};

}  // namespace ingot::weights::testing
