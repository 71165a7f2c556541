// The training groups that a checkpoint makes unnecessary, computed from the journal. Pure.
#pragma once

#include <cstdint>
#include <set>

#include "proto/journal.pb.h"

namespace ingot::datapool {

class TrimPlan {
 public:
  explicit TrimPlan(int64_t checkpoint_step) : checkpoint_step_(checkpoint_step) {}
  // REQUIRES: called with every journal record, in order.
  void Add(const v1::JournalRecord& record);

  // The groups of batches below the checkpoint's step, and the closed groups that were admitted before the last of
  // them.
  std::set<int64_t> Groups() const;

 private:
  const int64_t checkpoint_step_;
  std::set<int64_t> trained_;
  std::set<int64_t> closed_;
};

}  // namespace ingot::datapool
