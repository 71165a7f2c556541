// A pool that is opened for reading. It is a picture of one moment, so that an old one is opened again.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "datapool/client.h"

namespace ingot::app {

// Thread safe; a call may block while the pool is opened.
class FreshPool {
 public:
  using Pool = absl::StatusOr<std::shared_ptr<datapool::Client>>;

  static constexpr std::chrono::seconds kStale{4};  // a question this long after an opening opens the pool again
  static constexpr int kFailures = 3;

  // `open` opens the pool; `first` is what it gave just now. `clock` outlives the pool.
  FreshPool(std::function<Pool()> open, Pool first, const base::Clock& clock = base::Clock::Real());

  // The newest picture. A run may write just while its pool is opened: the earlier picture serves until kFailures openings
  // in a row have failed, and the error from then on.
  Pool Get();

 private:
  const std::function<Pool()> open_;
  const base::Clock& clock_;
  base::Mutex mu_;
  Pool pool_ ABSL_GUARDED_BY(mu_);
  std::chrono::nanoseconds opened_ ABSL_GUARDED_BY(mu_);
  int failures_ ABSL_GUARDED_BY(mu_) = 0;  // in a row
};

}  // namespace ingot::app
