// A runner's retry policy for its gateway: it repeats calls while the gateway cannot be reached, and waits. Stopping
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
  // base::Persist while no gateway can be reached, for report_retry_s. After Stop, a failed call is the last one. A
  // gateway that is shutting down answers CANCELLED; a gateway whose episodes another has taken over answers ABORTED.
  absl::Status Persist(const char* waits_for, const std::function<absl::Status()>& call);

 private:
  const RunnerOptions& options_;
  const base::Clock& clock_;
  mutable base::Mutex mu_;
  base::CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace ingot::agents
