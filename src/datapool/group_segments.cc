#include "datapool/group_segments.h"

#include <vector>

#include "base/checksum.h"

namespace ingot::datapool {
namespace {

absl::Status Lost(const std::string& key) {
  return absl::DataLossError("segment " + base::Hex(key) + " is no longer in the pool");
}

}  // namespace

absl::StatusOr<SegmentInfo> GroupSegments::Find(const std::string& key) const {
  INGOT_ASSIGN_OR_RETURN(const std::string info, batch_.Get(kSegmentInfos, prefix_ + key));
  return SegmentInfo::Decode(info);
}

absl::StatusOr<SegmentInfo> GroupSegments::Get(const std::string& key) const {
  absl::StatusOr<SegmentInfo> info = Find(key);
  if (absl::IsNotFound(info.status())) return Lost(key);
  return info;
}

absl::StatusOr<int64_t> GroupSegments::TokensOf(const v1::Call& call) const {
  int64_t tokens = call.context_tokens();
  for (const std::string& sampled : call.sampled_keys()) {
    INGOT_ASSIGN_OR_RETURN(const SegmentInfo info, Get(sampled));
    tokens += info.tokens;
  }
  return tokens;
}

absl::Status GroupSegments::CheckContent(const std::string& key, std::string_view bytes) const {
  // Content keys are not cryptographic, and clients choose part of the content.
  const absl::StatusOr<std::string> stored = batch_.Get(kSegments, prefix_ + key);
  if (absl::IsNotFound(stored.status())) return Lost(key);
  INGOT_RETURN_IF_ERROR(stored.status());
  if (*stored == bytes) return absl::OkStatus();
  return absl::AlreadyExistsError("segment " + base::Hex(key) + " is already stored with different content");
}

void GroupSegments::Add(const std::string& key, const SegmentInfo& info, const std::string& bytes) {
  batch_.Put(kSegments, prefix_ + key, bytes);
  batch_.Put(kSegmentInfos, prefix_ + key, info.Encode());
  counters_.set_segments(counters_.segments() + 1);
  counters_.set_segment_tokens(counters_.segment_tokens() + info.tokens);
}

absl::Status GroupSegments::DeleteAll() {
  std::vector<std::string> keys;
  int64_t tokens = 0;
  INGOT_RETURN_IF_ERROR(batch_.Scan(kSegmentInfos, prefix_, [&](std::string_view key, std::string_view info) {
    keys.emplace_back(key);
    tokens += SegmentInfo::Decode(info).tokens;
    return true;
  }));
  for (const std::string& key : keys) {
    batch_.Delete(kSegments, key);
    batch_.Delete(kSegmentInfos, key);
  }
  counters_.set_segments(counters_.segments() - static_cast<int64_t>(keys.size()));
  counters_.set_segment_tokens(counters_.segment_tokens() - tokens);
  return absl::OkStatus();
}

}  // namespace ingot::datapool
