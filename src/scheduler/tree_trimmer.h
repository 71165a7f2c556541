// Deletes trees from the pool once no step needs their groups, in journal order, a few at a time. Not thread safe.
// Takes no lock. DeleteNext blocks on the pool.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "datapool/client.h"

namespace ingot::scheduler {

class TreeTrimmer {
 public:
  explicit TreeTrimmer(datapool::Client& pool) : pool_(pool) {}

  // Returns whether the trees of all journal records below `end` are deleted.
  bool Done(int64_t end) const { return trimmed_ >= end; }
  // Deletes the trees released by the next few journal records below `end`. Returns the number of episodes deleted. 0 =
  // they were deleted before a restart, or there were none. Blocks for two RPCs. REQUIRES: !Done(end).
  absl::StatusOr<int64_t> DeleteNext(int64_t end);

 private:
  datapool::Client& pool_;
  int64_t trimmed_ = 0;  // the trees of journal records below this index are deleted
};

}  // namespace ingot::scheduler
