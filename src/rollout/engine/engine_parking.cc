// Implements the engine's Parking. Callers set what they want, and the step thread follows between two steps.
#include <chrono>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "rollout/engine/engine.h"

namespace ingot::rollout {
namespace {

using std::chrono::nanoseconds;

absl::Status ShuttingDown() { return absl::UnavailableError("the rollout engine is shutting down"); }

}  // namespace

absl::StatusOr<v1::ParkResponse> Engine::Park(const v1::ParkRequest& request) {
  if (!(request.timeout_seconds() > 0) || !(request.lease_seconds() > 0)) {
    return absl::InvalidArgumentError("parking an engine needs a timeout and a lease above 0 seconds");
  }
  const nanoseconds start = clock_.Now(), deadline = start + base::FromSeconds(request.timeout_seconds());
  const nanoseconds lease = base::FromSeconds(request.lease_seconds());
  v1::ParkResponse response;
  base::MutexLock lock(mu_);
  park_until_ = (parked_ ? start : deadline) + lease;  // starts once the running step has ended, which may take longer
  if (!parked_) {
    freed_bytes_ = 0;
    WakeStepThread();
    while (!parked_ && freed_bytes_.ok()) {
      if (stopping_ || draining_) return absl::UnavailableError("the rollout engine is leaving the run");
      if (clock_.Now() >= deadline) {
        park_until_ = nanoseconds(0);
        return absl::DeadlineExceededError(
            absl::StrCat("the engine's running step did not end within cluster.park_timeout_s (",
                         request.timeout_seconds(), " s), so the engine is not parked and continues"));
      }
      clock_.WaitUntil(swapped_, mu_, deadline);
    }
    INGOT_RETURN_IF_ERROR(freed_bytes_.status());
    response.set_freed_bytes(*freed_bytes_);
    if (park_until_ > nanoseconds(0)) park_until_ = clock_.Now() + lease;
  }
  response.set_waiting(static_cast<int32_t>(outstanding_));
  return response;
}

absl::Status Engine::Resume() {
  const nanoseconds deadline = clock_.Now() + std::chrono::milliseconds(options_.update_deadline_ms);
  base::MutexLock lock(mu_);
  park_until_ = nanoseconds(0);
  WakeStepThread();
  while (parked_) {
    if (stopping_) return ShuttingDown();
    if (clock_.Now() >= deadline) {
      return absl::DeadlineExceededError("the engine's step thread did not resume it in time");
    }
    clock_.WaitUntil(swapped_, mu_, deadline);
  }
  return absl::OkStatus();
}

bool Engine::WantsToPark() {
  if (park_until_ == nanoseconds(0) || draining_) return false;
  if (clock_.Now() < park_until_) return true;
  park_until_ = nanoseconds(0);
  if (parked_) INGOT_LOG(warn, "rollout: the trainer no longer renews the engine's parking, so the engine resumes");
  return false;
}

void Engine::FollowParking() {
  bool park = false;
  {
    base::MutexLock lock(mu_);
    park = WantsToPark();
    if (park == core_.parked()) return;
  }
  absl::StatusOr<int64_t> freed = 0;
  if (park && core_.transfer() != nullptr) {  // its threads may read and write the pages at any time
    freed = absl::UnimplementedError(
        "an engine with a KV store cannot be parked: set cluster.placement to split, or use no store");
  } else if (park) {
    core_.Park();
    freed = runner_->ReleaseMemory();
  }
  if (!park || !freed.ok()) core_.Resume();
  base::MutexLock lock(mu_);
  if (!freed.ok()) park_until_ = nanoseconds(0);
  parked_ = core_.parked();
  freed_bytes_ = freed;
  swapped_.SignalAll();
}

}  // namespace ingot::rollout
