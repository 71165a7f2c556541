// Frees what takes long to be freed, a little at a time: nothing that a client waits for is done meanwhile, and a core
// that is busy with it for a millisecond is one that a request waits for. Thread safe.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace ingot::gateway {

class Reclaimer {
 public:
  using Parts = std::vector<std::shared_ptr<const void>>;  // each of a few microseconds

  // Holds at most `max_parts` that wait.
  explicit Reclaimer(size_t max_parts);
  ~Reclaimer();
  Reclaimer(const Reclaimer&) = delete;
  Reclaimer& operator=(const Reclaimer&) = delete;

  // Lets go of them in the next milliseconds, on a thread of its own; at once, on the caller's, where too many wait.
  void Free(Parts parts) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mu_);

  const size_t max_parts_;
  base::Mutex mu_;
  base::CondVar changed_;
  std::deque<std::shared_ptr<const void>> parts_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace ingot::gateway
