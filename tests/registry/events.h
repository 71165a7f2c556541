// Collects the events of a watcher.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "registry/registry.h"

namespace ingot::registry::testing {

class Events {
 public:
  Registry::Observer observer() {
    return [this](const Event& event) {
      base::MutexLock lock(mu_);
      events_.push_back(event);
      changed_.SignalAll();
    };
  }
  std::vector<Event> all() {
    base::MutexLock lock(mu_);
    return events_;
  }
  // Whether `done` holds of the events within `timeout`.
  bool Await(const std::function<bool(const std::vector<Event>&)>& done,
             std::chrono::seconds timeout = std::chrono::seconds(20)) {
    const auto end = std::chrono::steady_clock::now() + timeout;
    base::MutexLock lock(mu_);
    while (!done(events_)) {
      const auto left = end - std::chrono::steady_clock::now();
      if (left.count() <= 0) return false;
      changed_.WaitFor(mu_, left);
    }
    return true;
  }
  bool AwaitCount(size_t count) {
    return Await([count](const std::vector<Event>& events) { return events.size() >= count; });
  }

 private:
  base::Mutex mu_;
  base::CondVar changed_;
  std::vector<Event> events_ ABSL_GUARDED_BY(mu_);
};

// "key=value" of a put, "-key" of a deletion.
inline std::string Show(const Event& event) {
  return event.deleted ? "-" + event.entry.key : event.entry.key + "=" + event.entry.value;
}

}  // namespace ingot::registry::testing
