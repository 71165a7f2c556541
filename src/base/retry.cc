#include "base/retry.h"

#include <algorithm>
#include <optional>

#include "base/waits.h"

namespace ingot::base {

absl::Status Persist(const Retries& how, std::string_view what, const std::function<absl::Status()>& attempt) {
  const std::chrono::nanoseconds began = how.clock->Now();
  std::chrono::nanoseconds pause = how.pause;
  std::optional<Wait> wait;
  while (true) {
    const absl::Status status = attempt();
    if (!how.passes(status)) return status;
    const std::chrono::nanoseconds left = how.timeout - (how.clock->Now() - began);
    if (how.stopped() || left <= std::chrono::nanoseconds(0)) return status;
    const std::string cause = WaitCause(what, status);
    wait.has_value() ? wait->Because(cause) : (void)wait.emplace(cause);
    if (how.on_failure) how.on_failure(status);
    how.sleep(std::min(pause, left));
    pause = std::min(pause * 2, how.longest_pause);
  }
}

}  // namespace ingot::base
