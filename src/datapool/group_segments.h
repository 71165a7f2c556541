// The segments of one group, seen and changed through a batch. A segment lives as long as its group has an episode.
//
// A view of the batch, which outlives it. Not thread safe.
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
  // `prefix`: the group's (SegmentPrefix). `counters`: the pool's, kept up to date.
  GroupSegments(Database::Batch& batch, v1::PoolStatusResponse& counters, std::string prefix)
      : batch_(batch), counters_(counters), prefix_(std::move(prefix)) {}

  // NOT_FOUND without a text: the group does not hold the segment with that content key.
  absl::StatusOr<SegmentInfo> Find(const std::string& key) const;
  // For a segment that a stored call names. DATA_LOSS: the group does not hold it.
  absl::StatusOr<SegmentInfo> Get(const std::string& key) const;
  // ALREADY_EXISTS: the stored segment has other bytes. REQUIRES: Find returned OK.
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
