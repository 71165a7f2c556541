// A runner's retry policy for its gateway. Retries calls while the gateway cannot be reached, and waits between
// episodes. Stopping the runner interrupts both. Thread safe.
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
  // Both arguments must outlive this object.
  GatewayRetry(const RunnerOptions& options, const base::Clock& clock) : options_(options), clock_(clock) {}

  void Stop();
  bool stopped() const;

  // Waits until the clock reaches `moment`, or until Stop is called.
  void WaitUntil(std::chrono::nanoseconds moment);
  // Retries `call` with base::Persist for up to report_retry_s while no gateway can be reached. After Stop, failed
  // calls are not retried. A gateway that is shutting down returns CANCELLED. A gateway whose episodes were taken over
  // by another gateway returns ABORTED.
  absl::Status Persist(const char* waits_for, const std::function<absl::Status()>& call);

 private:
  const RunnerOptions& options_;
  const base::Clock& clock_;
  mutable base::Mutex mu_;
  base::CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace ingot::agents
