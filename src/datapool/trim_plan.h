// Determines from the journal which training groups are no longer needed after a checkpoint. Performs no I/O.
#pragma once

#include <cstdint>
#include <set>

#include "proto/journal.pb.h"

namespace ingot::datapool {

class TrimPlan {
 public:
  explicit TrimPlan(int64_t checkpoint_step) : checkpoint_step_(checkpoint_step) {}
  // REQUIRES: called once with every journal record, in order.
  void Add(const v1::JournalRecord& record);

  // Returns the groups in batches before the checkpoint's step, and the closed groups admitted before the last of them.
  std::set<int64_t> Groups() const;

 private:
  const int64_t checkpoint_step_;
  std::set<int64_t> trained_;
  std::set<int64_t> closed_;
};

}  // namespace ingot::datapool
