// Checks of requests that need no stored state. INVALID_ARGUMENT names the field at fault. A string that is not UTF-8 is
// a fault of each request that is stored: protobuf would write the record and never read it. Pure.
#pragma once

#include "base/status.h"
#include "proto/datapool.pb.h"

namespace ingot::datapool {

absl::Status ValidateSegment(const v1::Segment& segment);
absl::Status ValidateStoreEpisode(const v1::StoreEpisodeRequest& request);
absl::Status ValidateAppendCall(const v1::AppendCallRequest& request, int64_t max_bytes);
absl::Status ValidateStoreReward(const v1::StoreRewardRequest& request);
absl::Status ValidateStoreEnd(const v1::StoreEndRequest& request);
absl::Status ValidateTakeOverEpisode(const v1::TakeOverEpisodeRequest& request);
absl::Status ValidateStoreGrades(const v1::StoreGradesRequest& request);
absl::Status ValidateGetEpisode(const v1::GetEpisodeRequest& request);
absl::Status ValidateListEpisodes(const v1::ListEpisodesRequest& request);
absl::Status ValidateAppendJournal(const v1::AppendJournalRequest& request, int64_t max_bytes);

}  // namespace ingot::datapool
