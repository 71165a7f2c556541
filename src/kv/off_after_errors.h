// Turns a store off for 1, 2, 4, ... 16 s after it failed, so that callers do not wait for it again and again. The first
// error and one per minute are logged. Thread safe.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/outage.h"
#include "base/status.h"

namespace ingot::kv {

class OffAfterErrors {
 public:
  // `what` names the store in the log. `clock` must outlive this object.
  OffAfterErrors(std::string what, const base::Clock& clock) : clock_(clock), outage_(std::move(what), clock) {}

  // Returns UNAVAILABLE while the store is off.
  absl::Status Check() const {
    base::MutexLock lock(mu_);
    if (clock_.Now() >= off_until_) return absl::OkStatus();
    return absl::UnavailableError("the KV store is off after an error");
  }
  // Turns the store off after UNAVAILABLE. Any other status shows that the store works. Returns `status`.
  absl::Status Note(const absl::Status& status) {
    base::MutexLock lock(mu_);
    if (absl::IsUnavailable(status)) {
      outage_.Failed(status);
      pause_ = pause_ == kNone ? kFirstPause : std::min(2 * pause_, kLongestPause);
      off_until_ = clock_.Now() + pause_;
    } else {
      outage_.Over();
      pause_ = kNone;
    }
    return status;
  }

 private:
  static constexpr std::chrono::nanoseconds kNone{0}, kFirstPause = std::chrono::seconds(1),
                                                      kLongestPause = std::chrono::seconds(16);

  const base::Clock& clock_;
  mutable base::Mutex mu_;
  base::Outage outage_ ABSL_GUARDED_BY(mu_);
  std::chrono::nanoseconds off_until_ ABSL_GUARDED_BY(mu_){0};
  std::chrono::nanoseconds pause_ ABSL_GUARDED_BY(mu_){0};
};

}  // namespace ingot::kv
