// Request checks that need no stored state. INVALID_ARGUMENT names the invalid field. Every string in a stored request
// must be UTF-8: protobuf would write a record with any other string, but could not read it back. Pure.
#pragma once

#include <google/protobuf/map.h>

#include <string>

#include "base/status.h"
#include "proto/datapool.pb.h"

namespace ingot::datapool {

absl::Status ValidateSegment(const v1::Segment& segment);
absl::Status ValidateStoreEpisode(const v1::StoreEpisodeRequest& request);
absl::Status ValidateAppendCall(const v1::AppendCallRequest& request, int64_t max_bytes);
// The facts of a whole episode, or of a request (tree/signal_bounds.h).
absl::Status ValidateFactBounds(const google::protobuf::Map<std::string, std::string>& facts);
absl::Status ValidateStoreReward(const v1::StoreRewardRequest& request);
absl::Status ValidateStoreEnd(const v1::StoreEndRequest& request);
absl::Status ValidateTakeOverEpisode(const v1::TakeOverEpisodeRequest& request);
absl::Status ValidateStoreGrades(const v1::StoreGradesRequest& request);
absl::Status ValidateGetEpisode(const v1::GetEpisodeRequest& request);
absl::Status ValidateListEpisodes(const v1::ListEpisodesRequest& request);
absl::Status ValidateAppendJournal(const v1::AppendJournalRequest& request, int64_t max_bytes);

}  // namespace ingot::datapool
