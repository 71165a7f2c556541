// Which training groups a checkpoint makes superfluous. Pure: the journal in, group ids out.
#pragma once

#include <cstdint>
#include <set>

#include "proto/journal.pb.h"

namespace ingot::datapool {

// Fed every journal record in order.
class TrimPlan {
 public:
  explicit TrimPlan(int64_t checkpoint_step) : checkpoint_step_(checkpoint_step) {}
  void Add(const v1::JournalRecord& record);

  // The groups of batches below the checkpoint, and the closed groups that were admitted before the last of them.
  std::set<int64_t> Groups() const;

 private:
  const int64_t checkpoint_step_;
  std::set<int64_t> trained_;
  std::set<int64_t> closed_;
};

}  // namespace ingot::datapool
