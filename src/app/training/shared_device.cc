#include "app/training/shared_device.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/log.h"

namespace ingot::app {
namespace {

double SecondsOf(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

SharedDevice::SharedDevice(std::vector<ParkedEngine> engines, std::chrono::nanoseconds timeout,
                           std::chrono::nanoseconds lease, const base::Clock& clock)
    : engines_(std::move(engines)),
      timeout_(timeout),
      lease_(lease),
      renewals_({.name = "parking", .threads = std::max(static_cast<int>(engines_.size()), 1)}, clock) {
  for (const auto& [name, parking] : engines_) {
    const absl::Status resumed = parking->Resume();  // often UNAVAILABLE, if the engine is still starting
    INGOT_LOG(debug, "resuming {}: {}", name, resumed.ToString());
  }
}

SharedDevice::~SharedDevice() { Give(); }

absl::Status SharedDevice::ParkOne(const ParkedEngine& engine, std::chrono::nanoseconds timeout) {
  v1::ParkRequest request;
  request.set_timeout_seconds(SecondsOf(timeout));
  request.set_lease_seconds(SecondsOf(lease_));
  const absl::StatusOr<v1::ParkResponse> parked = engine.second->Park(request);
  if (absl::IsUnavailable(parked.status())) {
    INGOT_LOG(warn, "{} is not parked during the step, because it cannot be reached: {}", engine.first,
              std::string(parked.status().message()));
    return absl::OkStatus();
  }
  INGOT_RETURN_IF_ERROR(base::Annotate(parked.status(), absl::StrCat("parking ", engine.first)));
  if (parked->freed_bytes() > 0) {
    INGOT_LOG(debug, "{} is parked: {} requests wait, and {} bytes are free", engine.first, parked->waiting(),
              parked->freed_bytes());
  }
  return absl::OkStatus();
}

absl::Status SharedDevice::Take() {
  for (const ParkedEngine& engine : engines_) {
    INGOT_RETURN_IF_ERROR(ParkOne(engine, timeout_));
    // From now on, because the next engine's step may take longer than this one's lease.
    timers_.push_back(renewals_.PostEvery(lease_ / 3, [this, &engine] { Renew(engine); }));
  }
  return absl::OkStatus();
}

void SharedDevice::Renew(const ParkedEngine& engine) {
  // Give waits for this call, so it should be short.
  if (const absl::Status renewed = ParkOne(engine, std::min(timeout_, lease_ / 3)); !renewed.ok()) {
    INGOT_LOG(warn, "the step continues while an engine may also compute: {}", std::string(renewed.message()));
  }
}

void SharedDevice::Give() {
  timers_.clear();
  for (const ParkedEngine& engine : engines_) {
    const absl::Status resumed = engine.second->Resume();
    if (resumed.ok()) continue;
    INGOT_LOG(warn, "{} cannot be resumed now, and resumes by itself within {} s: {}", engine.first, SecondsOf(lease_),
              std::string(resumed.message()));
  }
}

}  // namespace ingot::app
