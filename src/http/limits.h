// Limits of an HTTP server: the file descriptors of the process, and the memory of request bodies. Internal to the
// folder, to its tests and to app/load_balancer.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/status.h"

namespace ingot::http {

inline constexpr int64_t kOtherFiles = 512;  // open files other than connections: of a data pool, logs, listeners

inline constexpr int32_t kMostConnections = 10240;  // without a configured number

// The default number of connections of a server in a process that may open `files` files: at most kMostConnections, and
// at least half the files.
int32_t ConnectionsWithin(uint64_t files);

// The process's hard limit of open files; UINT64_MAX = none.
uint64_t HardFileLimit();

// Lets this process open `connections` + kOtherFiles files. Never lowers its limit. RESOURCE_EXHAUSTED: the system's
// hard limit is lower; the message says which options to set.
absl::Status RaiseFileLimit(int64_t connections);

// A counter of the body bytes that a server holds. Thread safe.
class BodyBudget {
 public:
  explicit BodyBudget(int64_t limit) : limit_(limit) {}
  // False = they would pass the limit, and are not counted.
  bool Acquire(int64_t bytes) {
    if (used_.fetch_add(bytes) + bytes <= limit_) return true;
    used_ -= bytes;
    return false;
  }
  void Give(int64_t bytes) { used_ -= bytes; }

 private:
  const int64_t limit_;
  std::atomic<int64_t> used_{0};
};

// One body's share of a budget. The destructor returns the share.
class BodyCharge {
 public:
  explicit BodyCharge(BodyBudget& budget) : budget_(budget) {}
  ~BodyCharge() { budget_.Give(bytes_); }
  BodyCharge(const BodyCharge&) = delete;
  BodyCharge& operator=(const BodyCharge&) = delete;
  // Grows the share to `bytes`. False = the budget has no room; the share stays as it was.
  bool Cover(int64_t bytes) {
    if (bytes <= bytes_) return true;
    if (!budget_.Acquire(bytes - bytes_)) return false;
    bytes_ = bytes;
    return true;
  }

 private:
  BodyBudget& budget_;
  int64_t bytes_ = 0;
};

}  // namespace ingot::http
