#include "app/record/fresh_pool.h"

#include <utility>

namespace ingot::app {

FreshPool::FreshPool(std::function<Pool()> open, Pool first, const base::Clock& clock)
    : open_(std::move(open)), clock_(clock), pool_(std::move(first)), opened_(clock.Now()) {}

FreshPool::Pool FreshPool::Get() {
  base::MutexLock lock(mu_);
  if (clock_.Now() - opened_ < kStale) return pool_;
  Pool again = open_();
  opened_ = clock_.Now();
  failures_ = again.ok() ? 0 : failures_ + 1;
  if (again.ok() || !pool_.ok() || failures_ >= kFailures) pool_ = std::move(again);
  return pool_;
}

}  // namespace ingot::app
