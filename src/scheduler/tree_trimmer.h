// Deletes the trees of groups that no step needs any more from the pool, in the order of the journal, some at a time.
// Not thread safe. Knows no lock: DeleteNext blocks for the pool.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "datapool/client.h"

namespace ingot::scheduler {

class TreeTrimmer {
 public:
  explicit TreeTrimmer(datapool::Client& pool) : pool_(pool) {}

  // True: the trees of all journal records below `end` are deleted.
  bool Done(int64_t end) const { return trimmed_ >= end; }
  // Deletes the trees that the next journal records below `end` released. Returns the number of episodes deleted; 0 =
  // they were deleted before a restart, or the records released none. Blocks for two rpcs. REQUIRES: !Done(end).
  absl::StatusOr<int64_t> DeleteNext(int64_t end);

 private:
  datapool::Client& pool_;
  int64_t trimmed_ = 0;  // the trees of journal records below it are deleted
};

}  // namespace ingot::scheduler
