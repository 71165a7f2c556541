// Keeps a pool open for reading. An open pool is a snapshot, so it is reopened when it becomes stale.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "datapool/client.h"

namespace ingot::app {

// Thread safe. Calls may block while the pool is being opened.
class FreshPool {
 public:
  using Pool = absl::StatusOr<std::shared_ptr<datapool::Client>>;

  static constexpr std::chrono::seconds kStale{4};  // Get reopens a pool that was opened longer ago than this
  static constexpr int kFailures = 3;

  // `open` opens the pool, and `first` is its most recent result. REQUIRES: `clock` outlives the pool.
  FreshPool(std::function<Pool()> open, Pool first, const base::Clock& clock = base::Clock::Real());

  // Returns the newest snapshot. Opening may fail while the run is writing, so this returns the previous snapshot until
  // kFailures attempts in a row have failed. After that, it returns the error.
  Pool Get();

 private:
  const std::function<Pool()> open_;
  const base::Clock& clock_;
  base::Mutex mu_;
  Pool pool_ ABSL_GUARDED_BY(mu_);
  std::chrono::nanoseconds opened_ ABSL_GUARDED_BY(mu_);
  int failures_ ABSL_GUARDED_BY(mu_) = 0;  // consecutive failures
};

}  // namespace ingot::app
