// A batch's view of one group's segments. A segment is deleted together with the last episode in its group.
//
// The batch must outlive this view. Not thread safe.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "datapool/database.h"
#include "datapool/keys.h"
#include "proto/datapool.pb.h"

namespace ingot::datapool {

class GroupSegments {
 public:
  // `prefix` is the group's SegmentPrefix. `counters` are the pool's counters, which this class updates.
  GroupSegments(Database::Batch& batch, v1::PoolStatusResponse& counters, std::string prefix)
      : batch_(batch), counters_(counters), prefix_(std::move(prefix)) {}

  // Returns NOT_FOUND without a message if the group has no segment with this content key.
  absl::StatusOr<SegmentInfo> Find(const std::string& key) const;
  // Same as Find, but for a segment that a stored call references. Returns DATA_LOSS if the group does not have it.
  absl::StatusOr<SegmentInfo> Get(const std::string& key) const;
  // Returns the number of tokens in a stored call's prompt and sampled segments.
  absl::StatusOr<int64_t> TokensOf(const v1::Call& call) const;
  // Returns ALREADY_EXISTS if the stored segment has different bytes. REQUIRES: Find returned OK.
  absl::Status CheckContent(const std::string& key, std::string_view bytes) const;
  // REQUIRES: Find returned NOT_FOUND.
  void Add(const std::string& key, const SegmentInfo& info, const std::string& bytes);
  absl::Status DeleteAll();

 private:
  Database::Batch& batch_;
  v1::PoolStatusResponse& counters_;
  const std::string prefix_;
};

}  // namespace ingot::datapool
