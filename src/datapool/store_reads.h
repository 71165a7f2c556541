// The reads of a store, as functions of a reader.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "datapool/database.h"
#include "proto/datapool.pb.h"

namespace ingot::datapool {

// DATA_LOSS: a segment that a call names is gone.
absl::StatusOr<v1::EpisodeTree> LoadTree(const Database::Reader& reader, const std::string& episode_id,
                                         bool with_calls);
absl::StatusOr<v1::Group> ReadGroup(const Database::Reader& reader, const v1::GetGroupRequest& request);
absl::StatusOr<v1::ListEpisodesResponse> ReadEpisodes(const Database::Reader& reader,
                                                      const v1::ListEpisodesRequest& request);
absl::StatusOr<v1::ReadJournalResponse> ReadJournalPage(const Database::Reader& reader,
                                                        const v1::ReadJournalRequest& request);
absl::StatusOr<v1::PoolStatusResponse> ReadStatus(const Database::Reader& reader);
// DATA_LOSS: the journal's last records are gone, or records without a count are there.
absl::Status CheckJournalEnd(const Database::Reader& reader);
// Keys in `order`.
absl::StatusOr<std::vector<std::string>> EpisodesToTrim(const Database::Reader& reader, const v1::TrimRequest& request);

}  // namespace ingot::datapool
