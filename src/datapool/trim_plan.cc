#include "datapool/trim_plan.h"

namespace ingot::datapool {

void TrimPlan::Add(const v1::JournalRecord& record) {
  if (record.has_batch() && record.batch().step() < checkpoint_step_) {
    trained_.insert(record.batch().group_ids().begin(), record.batch().group_ids().end());
  } else if (record.has_closed()) {
    closed_.insert(record.closed().group_id());
  }
}

std::set<int64_t> TrimPlan::Groups() const {
  std::set<int64_t> groups = trained_;
  // Group ids are assigned in admission order.
  if (!trained_.empty()) groups.insert(closed_.begin(), closed_.lower_bound(*trained_.rbegin()));
  return groups;
}

}  // namespace ingot::datapool
