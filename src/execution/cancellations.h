#pragma once

#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "sandbox/process.h"

namespace ingot::execution {

// Holds one cancellation for each of a service's requests. CancelAll cancels all requests that are still running.
// Thread safe.
class Cancellations {
 public:
  // After CancelAll, the returned cancellation is already canceled.
  std::shared_ptr<sandbox::Cancellation> New();
  void CancelAll();

 private:
  base::Mutex mu_;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::weak_ptr<sandbox::Cancellation>> given_ ABSL_GUARDED_BY(mu_);
};

// Returns CANCELLED if the request was canceled.
absl::Status CheckWanted(const sandbox::Cancellation& cancel);

}  // namespace ingot::execution
