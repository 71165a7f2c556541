// A UidRange hands out uids that no other run of this machine has: each is locked in a file that all runs of root
// share. The lock goes with the process, however it ends. Thread safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "sandbox/spawn.h"

namespace ingot::sandbox {

class UidRange {
 public:
  // The uids from `base` on. `lock_file` is made if missing.
  static absl::StatusOr<std::unique_ptr<UidRange>> Open(int64_t base, const std::string& lock_file);

  // RESOURCE_EXHAUSTED: all are taken.
  absl::StatusOr<int64_t> Acquire();
  // Only this range may take `uid` again: its lock stays.
  void Give(int64_t uid);

 private:
  UidRange(int64_t base, Fd locks) : base_(base), locks_(std::move(locks)), next_(base) {}

  const int64_t base_;
  const Fd locks_;  // the byte at offset N is the lock of uid N
  base::Mutex mu_;
  std::vector<int64_t> free_ ABSL_GUARDED_BY(mu_);
  int64_t next_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::sandbox
