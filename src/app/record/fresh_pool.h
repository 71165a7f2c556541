// A pool that is opened for reading. It is a snapshot, so it is reopened when it is old.
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

  static constexpr std::chrono::seconds kStale{4};  // a request this long after the pool was opened reopens it
  static constexpr int kFailures = 3;

  // `open` opens the pool; `first` is its latest result. `clock` outlives the pool.
  FreshPool(std::function<Pool()> open, Pool first, const base::Clock& clock = base::Clock::Real());

  // The newest snapshot. Opening may fail while the run writes: the earlier snapshot is used until kFailures attempts
  // in a row have failed, and the error after that.
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
