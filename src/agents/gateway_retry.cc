#include "agents/gateway_retry.h"

#include "base/retry.h"

namespace ingot::agents {

using std::chrono::nanoseconds;

void GatewayRetry::Stop() {
  base::MutexLock lock(mu_);
  stopped_ = true;
  changed_.SignalAll();
}

bool GatewayRetry::stopped() const {
  base::MutexLock lock(mu_);
  return stopped_;
}

void GatewayRetry::WaitUntil(nanoseconds moment) {
  base::MutexLock lock(mu_);
  while (!stopped_ && clock_.Now() < moment) clock_.WaitUntil(changed_, mu_, moment);
}

absl::Status GatewayRetry::Persist(const char* waits_for, const std::function<absl::Status()>& call) {
  return base::Persist({.stopped = [this] { return stopped(); },
                        .sleep = [this](nanoseconds time) { WaitUntil(clock_.Now() + time); },
                        .pause = base::FromSeconds(options_.backoff_initial_s),
                        .longest_pause = base::FromSeconds(options_.backoff_max_s),
                        .timeout = base::FromSeconds(options_.report_retry_s),
                        .passes = base::IsTransientOrMoved,
                        .clock = &clock_},
                       waits_for, call);
}

}  // namespace ingot::agents
