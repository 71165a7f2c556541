// Assigns uids that no other run on this machine uses. Each uid is locked in a file shared by all of root's runs. The
// lock is released when the process exits for any reason. Thread safe.
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
  // Opens the range of uids that starts at `base`. Creates `lock_file` if it is missing.
  static absl::StatusOr<std::unique_ptr<UidRange>> Open(int64_t base, const std::string& lock_file);

  // Returns RESOURCE_EXHAUSTED if all uids are in use.
  absl::StatusOr<int64_t> Acquire();
  // Returns `uid` to this range, which may assign it again. Other processes still cannot use it.
  void Give(int64_t uid);

 private:
  UidRange(int64_t base, Fd locks) : base_(base), locks_(std::move(locks)), next_(base) {}

  const int64_t base_;
  const Fd locks_;  // the byte at offset N locks uid N
  base::Mutex mu_;
  std::vector<int64_t> free_ ABSL_GUARDED_BY(mu_);
  int64_t next_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::sandbox
