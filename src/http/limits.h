// Enforces an HTTP server's limits: the process's file descriptors, and memory for request bodies. Internal to this
// directory, its tests, and app/cluster/load_balancer.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/status.h"

namespace ingot::http {

inline constexpr int64_t kOtherFiles = 512;  // open files other than connections: data pools, logs, listeners

inline constexpr int32_t kMaxConnections = 10240;  // maximum if no limit is configured

// Returns the default number of connections for a server in a process that may open `files` files. This is the larger
// of `files` - kOtherFiles and `files` / 2, but at most kMaxConnections.
int32_t ConnectionsWithin(uint64_t files);

// Returns the process's hard limit on open files; UINT64_MAX = none.
uint64_t HardFileLimit();

// Raises this process's open file limit to at least `connections` + kOtherFiles. Never lowers it. Returns
// RESOURCE_EXHAUSTED if the system's hard limit is lower. The message lists the options to set.
absl::Status RaiseFileLimit(int64_t connections);

// Counts the body bytes that a server holds in memory. Thread safe.
class BodyBudget {
 public:
  explicit BodyBudget(int64_t limit) : limit_(limit) {}
  // Returns false and counts nothing if the limit would be exceeded.
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

// The share of a budget that one body uses. The destructor returns it.
class BodyCharge {
 public:
  explicit BodyCharge(BodyBudget& budget) : budget_(budget) {}
  ~BodyCharge() { budget_.Give(bytes_); }
  BodyCharge(const BodyCharge&) = delete;
  BodyCharge& operator=(const BodyCharge&) = delete;
  // Grows the share to `bytes`. Returns false and changes nothing if the budget is exhausted.
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
