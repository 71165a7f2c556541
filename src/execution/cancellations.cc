#include "execution/cancellations.h"

namespace ingot::execution {

std::shared_ptr<sandbox::Cancellation> Cancellations::New() {
  auto cancel = std::make_shared<sandbox::Cancellation>();
  base::MutexLock lock(mu_);
  if (ended_) cancel->Cancel();
  std::erase_if(given_, [](const auto& each) { return each.expired(); });
  given_.push_back(cancel);
  return cancel;
}

void Cancellations::CancelAll() {
  base::MutexLock lock(mu_);
  ended_ = true;
  for (const auto& each : given_) {
    if (const auto cancel = each.lock()) cancel->Cancel();
  }
}

absl::Status CheckWanted(const sandbox::Cancellation& cancel) {
  if (!cancel.cancelled()) return absl::OkStatus();
  return absl::CancelledError("the client disconnected, or the service is stopping");
}

}  // namespace ingot::execution
