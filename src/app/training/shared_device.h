// The trainer's turns on a device that it shares with the engines (cluster.placement: shared). See rollout/parking.h.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/executor.h"
#include "base/status.h"
#include "rollout/parking.h"

namespace ingot::app {

// An engine's name and its parking.
using ParkedEngine = std::pair<std::string, std::shared_ptr<rollout::Parking>>;

// Take and Give are called on one thread, and block. In between, each engine has a thread that renews its lease, so that
// an engine that does not answer delays no other's. An engine that was killed starts again unparked, and is parked at the
// next renewal.
class SharedDevice {
 public:
  // `timeout` is the time for an engine's running step, and `lease` the time after which an engine resumes by itself if
  // this process is gone. Resumes engines that an earlier trainer has left parked.
  SharedDevice(std::vector<ParkedEngine> engines, std::chrono::nanoseconds timeout,
               std::chrono::nanoseconds lease = std::chrono::seconds(30),
               const base::Clock& clock = base::Clock::Real());
  ~SharedDevice();  // calls Give()

  // Parks all engines. An engine that cannot be reached uses no memory, and is logged. Returns the first other error,
  // with the engine's name, such as DEADLINE_EXCEEDED if a step did not end in time.
  absl::Status Take();
  // Resumes all engines. An engine that cannot be reached resumes when its lease ends.
  void Give();

 private:
  absl::Status ParkOne(const ParkedEngine& engine, std::chrono::nanoseconds timeout);
  void Renew(const ParkedEngine& engine);

  const std::vector<ParkedEngine> engines_;
  const std::chrono::nanoseconds timeout_, lease_;
  base::Executor renewals_;
  std::vector<base::Timer> timers_;  // by engine; declared last because they must stop first
};

}  // namespace ingot::app
