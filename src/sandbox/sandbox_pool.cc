#include "sandbox/sandbox_pool.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace ingot::sandbox {
namespace {

constexpr std::chrono::milliseconds kPauseAfterFailure{500};

bool IsAlike(const SandboxOptions& a, const SandboxOptions& b) {
  return a.image == b.image && a.binds == b.binds && a.takes_snapshots == b.takes_snapshots && a.totals == b.totals &&
         a.disk == b.disk;
}

}  // namespace

SandboxPool::SandboxPool(size_t size, Maker make) : size_(size), make_(std::move(make)), orders_(size) {
  filler_ = std::thread([this] { Fill(); });
}

SandboxPool::~SandboxPool() {
  {
    base::MutexLock lock(mu_);
    ends_ = true;
    changed_.SignalAll();
  }
  filler_.join();
}

std::unique_ptr<Sandbox> SandboxPool::Acquire(const SandboxOptions& options) {
  base::MutexLock lock(mu_);
  if (orders_.size() >= size_) orders_.pop_front();
  orders_.push_back(options);
  changed_.SignalAll();
  const auto found =
      std::find_if(ready_.begin(), ready_.end(), [&](const Ready& ready) { return IsAlike(ready.kind, options); });
  if (found == ready_.end()) return nullptr;
  std::unique_ptr<Sandbox> sandbox = std::move(found->sandbox);
  ready_.erase(found);
  return sandbox;
}

void SandboxPool::Fill() {
  const base::Clock& clock = base::Clock::Real();
  std::chrono::nanoseconds not_before = clock.Now();
  while (true) {
    SandboxOptions kind;
    {
      base::MutexLock lock(mu_);
      while (!ends_ && clock.Now() < not_before) clock.WaitUntil(changed_, mu_, not_before);
      while (!ends_ && orders_.empty()) changed_.Wait(mu_);
      if (ends_) return;
      kind = std::move(orders_.front());
      orders_.pop_front();
    }
    auto sandbox = make_(kind);
    if (!sandbox.ok()) {  // the next caller that requests such a sandbox gets the error itself
      not_before = clock.Now() + kPauseAfterFailure;
      continue;
    }
    Ready gone;  // destroyed without the lock, because that takes a while
    base::MutexLock lock(mu_);
    ready_.push_back({std::move(kind), *std::move(sandbox)});
    if (ready_.size() <= size_) continue;
    gone = std::move(ready_.front());
    ready_.pop_front();
  }
}

}  // namespace ingot::sandbox
