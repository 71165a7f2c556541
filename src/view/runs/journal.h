// Tracks a run's groups and batches in its journal: which groups were admitted, graded, trained on, or dropped, and
// when. Refresh reads the records added since the last Refresh. Thread safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "datapool/client.h"

namespace ingot::view {

enum class GroupState {
  kOpen,      // its samples are running or its grades are missing
  kFinished,  // has its rewards; waiting for a batch
  kTrained,   // in a batch
  kDropped,   // all its rewards are equal
  kFailed,
};
std::string NameOf(GroupState state);

// Times are in nanoseconds since the Unix epoch; 0 = has not happened yet.
struct JournalGroup {
  int64_t group_id = 0;
  std::string task_id, domain;
  int32_t group_size = 0;
  int64_t admitted_version = 0;
  int64_t admitted_ns = 0, rewarded_ns = 0, ended_ns = 0;  // ended = added to a batch, dropped, or failed
  GroupState state = GroupState::kOpen;
  int64_t step = -1;  // step of its batch; -1 = none
  std::string reason;
  std::vector<double> returns;
};

struct JournalBatch {
  int64_t step = 0;
  int64_t unix_ns = 0;
  int64_t live_ns = 0;  // when the resulting version went live on every engine; 0 = not yet
  std::vector<int64_t> groups;
};

class Journal {
 public:
  // Returns errors from the pool. If the pool has a different journal, for example from an older copy or from a run
  // that replaced this one, reads it from the beginning.
  absl::Status Refresh(datapool::Client& pool);

  std::optional<JournalGroup> Group(int64_t id) const;
  std::optional<JournalBatch> Batch(int64_t step) const;
  // Returns groups starting with the oldest open or finished one, or none if all groups have ended.
  std::vector<JournalGroup> FromHead() const;
  // Returns the trained groups that still occupy their slots because their version is not live yet.
  std::vector<int64_t> Unreleased() const;
  int64_t live_version() const;  // -1 = none was reported
  int64_t batches() const;
  int64_t next_group() const;
  int64_t Count(GroupState state) const;
  std::vector<int64_t> InState(GroupState state, size_t newest) const;  // the newest groups, oldest first
  double started_s() const;    // time of the first record in seconds since the Unix epoch; 0 = no records
  int64_t generation() const;  // how many times another journal replaced the one being read

 private:
  void StartAnew() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Apply(const v1::JournalRecord& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void End(int64_t group, GroupState state, int64_t unix_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable base::Mutex mu_;
  int64_t next_index_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t first_ns_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t newest_ns_ ABSL_GUARDED_BY(mu_) = 0;  // time of the record before next_index_
  int64_t generation_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t live_version_ ABSL_GUARDED_BY(mu_) = -1;
  int64_t head_ ABSL_GUARDED_BY(mu_) = 0;  // older groups are neither open nor finished
  std::map<int64_t, JournalGroup> groups_ ABSL_GUARDED_BY(mu_);
  std::map<int64_t, JournalBatch> batches_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::view
