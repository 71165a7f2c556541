#include "agents/gateway_patience.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/printable.h"
#include "base/waits.h"

namespace ingot::agents {

using std::chrono::nanoseconds;

bool IsTransient(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable || status.code() == absl::StatusCode::kDeadlineExceeded ||
         status.code() == absl::StatusCode::kResourceExhausted || status.code() == absl::StatusCode::kAborted ||
         status.code() == absl::StatusCode::kCancelled;
}

std::string WaitCause(const char* waits_for, const absl::Status& status) {
  constexpr size_t kMostBytes = 300;
  const std::string_view text(status.message().data(), status.message().size());
  return absl::StrCat(waits_for, " (", base::Printable(text, {.max_bytes = kMostBytes}), ")");
}

void GatewayPatience::Stop() {
  base::MutexLock lock(mu_);
  stopped_ = true;
  changed_.SignalAll();
}

bool GatewayPatience::stopped() const {
  base::MutexLock lock(mu_);
  return stopped_;
}

void GatewayPatience::WaitUntil(nanoseconds moment) {
  base::MutexLock lock(mu_);
  while (!stopped_ && clock_.Now() < moment) clock_.WaitUntil(changed_, mu_, moment);
}

absl::Status GatewayPatience::Persist(const char* waits_for, const std::function<absl::Status()>& call) {
  const nanoseconds give_up = clock_.Now() + base::FromSeconds(options_.report_retry_s);
  nanoseconds wait = base::FromSeconds(options_.backoff_initial_s);
  std::optional<base::Wait> without;  // from the first failure on
  while (true) {
    const absl::Status status = call();
    if (!IsTransient(status)) return status;
    const std::string cause = WaitCause(waits_for, status);
    without.has_value() ? without->Because(cause) : (void)without.emplace(cause);
    if (stopped() || clock_.Now() >= give_up) return status;
    WaitUntil(std::min(give_up, clock_.Now() + wait));
    wait = std::min(wait * 2, base::FromSeconds(options_.backoff_max_s));
  }
}

}  // namespace ingot::agents
