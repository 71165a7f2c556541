#include "app/terminal/work_lines.h"

namespace ingot::app {

WorkLines::~WorkLines() {
  {
    const base::MutexLock lock(mu_);
    stopping_ = true;
    stopped_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

void WorkLines::Start() {
  thread_ = std::thread([this] {
    while (true) {
      Poll();
      const base::MutexLock lock(mu_);
      const std::chrono::nanoseconds next = clock_.Now() + kPause;
      while (!stopping_ && clock_.WaitUntil(stopped_, mu_, next)) {
      }
      if (stopping_) return;
    }
  });
}

void WorkLines::Poll() {
  const std::chrono::nanoseconds now = clock_.Now();
  if (printed_.has_value() && now - *printed_ < kEvery) return;
  line_.Working([&] {
    if (work_.Lasts() < kEvery) return std::string();
    printed_ = now;
    return work_.Describe();
  });
}

}  // namespace ingot::app
