// Validates requests without using stored state. Errors are INVALID_ARGUMENT and name the field. Every string in a
// stored request must be UTF-8, because protobuf can write other strings but cannot read them back. Pure functions.
#pragma once

#include <google/protobuf/map.h>

#include <string>

#include "base/status.h"
#include "proto/datapool.pb.h"

namespace ingot::datapool {

absl::Status ValidateSegment(const v1::Segment& segment);
absl::Status ValidateStoreEpisode(const v1::StoreEpisodeRequest& request);
absl::Status ValidateAppendCall(const v1::AppendCallRequest& request, int64_t max_bytes);
// Checks the facts in an entire episode or in a request (tree/signal_bounds.h).
absl::Status ValidateFactBounds(const google::protobuf::Map<std::string, std::string>& facts);
absl::Status ValidateStoreReward(const v1::StoreRewardRequest& request);
absl::Status ValidateStoreEnd(const v1::StoreEndRequest& request);
absl::Status ValidateTakeOverEpisode(const v1::TakeOverEpisodeRequest& request);
absl::Status ValidateStoreGrades(const v1::StoreGradesRequest& request);
absl::Status ValidateGetEpisode(const v1::GetEpisodeRequest& request);
absl::Status ValidateListEpisodes(const v1::ListEpisodesRequest& request);
absl::Status ValidateAppendJournal(const v1::AppendJournalRequest& request, int64_t max_bytes);

}  // namespace ingot::datapool
