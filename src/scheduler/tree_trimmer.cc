#include "scheduler/tree_trimmer.h"

#include <algorithm>

namespace ingot::scheduler {
namespace {

// Maximum number of journal records for which one call deletes trees: a batch or two in a large run.
constexpr int64_t kTrimRecords = 200;

}  // namespace

absl::StatusOr<int64_t> TreeTrimmer::DeleteNext(int64_t end) {
  v1::ReadJournalRequest read;
  read.set_from_index(trimmed_);
  read.set_limit(static_cast<int32_t>(std::min(end - trimmed_, kTrimRecords)));
  INGOT_ASSIGN_OR_RETURN(const v1::ReadJournalResponse page, pool_.ReadJournal(read));
  if (page.records().empty()) return absl::DataLossError("the journal ends before its batches");
  v1::TrimRequest trim;
  for (const v1::JournalRecord& record : page.records()) {
    for (const int64_t group : record.batch().group_ids()) trim.add_group_ids(group);
    if (record.has_closed()) trim.add_group_ids(record.closed().group_id());
  }
  int64_t deleted = 0;
  if (!trim.group_ids().empty()) {
    const absl::StatusOr<v1::TrimResponse> trimmed = pool_.Trim(trim);
    if (!trimmed.ok()) return base::Annotate(trimmed.status(), "deleting old trees (scheduler.keep_steps)");
    deleted = trimmed->episodes_deleted();
  }
  trimmed_ += page.records_size();
  return deleted;
}

}  // namespace ingot::scheduler
