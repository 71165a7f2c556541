// A runner's patience with its gateway: calls that are repeated while the gateway cannot be reached, and waits. The stop of
// the runner ends both. Thread safe.
#pragma once

#include <chrono>
#include <functional>

#include "agents/options.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"

namespace ingot::agents {

class GatewayRetry {
 public:
  // Both outlive it.
  GatewayRetry(const RunnerOptions& options, const base::Clock& clock) : options_(options), clock_(clock) {}

  void Stop();
  bool stopped() const;

  // Waits until `moment` of the clock, or until Stop.
  void WaitUntil(std::chrono::nanoseconds moment);
  // base::Persist while no gateway can be reached, for report_retry_s. After Stop, a call that fails is the last one. A
  // gateway that is being ended answers CANCELLED, and one whose episodes another has taken over ABORTED.
  absl::Status Persist(const char* waits_for, const std::function<absl::Status()>& call);

 private:
  const RunnerOptions& options_;
  const base::Clock& clock_;
  mutable base::Mutex mu_;
  base::CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace ingot::agents
