#pragma once

#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "sandbox/process.h"

namespace ingot::execution {

// The cancellations of a service's requests. Each ends one request; CancelAll ends all that are still in use. Thread
// safe.
class Cancellations {
 public:
  // After CancelAll it is cancelled from the start.
  std::shared_ptr<sandbox::Cancellation> New();
  void CancelAll();

 private:
  base::Mutex mu_;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::weak_ptr<sandbox::Cancellation>> given_ ABSL_GUARDED_BY(mu_);
};

// CANCELLED: the request was.
absl::Status CheckWanted(const sandbox::Cancellation& cancel);

}  // namespace ingot::execution
