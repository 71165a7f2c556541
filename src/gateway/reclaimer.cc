#include "gateway/reclaimer.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

namespace ingot::gateway {
namespace {

constexpr size_t kAtOnce = 8;
constexpr auto kPause = std::chrono::microseconds(500);

}  // namespace

Reclaimer::Reclaimer(size_t max_parts) : max_parts_(max_parts), thread_([this] { Run(); }) {}

Reclaimer::~Reclaimer() {
  {
    base::MutexLock lock(mu_);
    closed_ = true;
    changed_.Signal();
  }
  thread_.join();
}

void Reclaimer::Free(Parts parts) {
  base::MutexLock lock(mu_);  // is gone before `parts` are
  if (parts_.size() + parts.size() > max_parts_) return;
  std::move(parts.begin(), parts.end(), std::back_inserter(parts_));
  changed_.Signal();
}

void Reclaimer::Run() {
  while (true) {
    Parts freed;
    {
      base::MutexLock lock(mu_);
      while (!closed_ && parts_.empty()) changed_.Wait(mu_);
      if (closed_) return;
      const size_t count = std::min(kAtOnce, parts_.size());
      const auto end = parts_.begin() + static_cast<std::ptrdiff_t>(count);
      std::move(parts_.begin(), end, std::back_inserter(freed));
      parts_.erase(parts_.begin(), end);
    }
    freed.clear();
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace ingot::gateway
