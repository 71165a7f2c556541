// Implements the store's reads on top of a Database::Reader.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "datapool/database.h"
#include "proto/datapool.pb.h"

namespace ingot::datapool {

// Returns DATA_LOSS if a call references a missing segment.
absl::StatusOr<v1::EpisodeTree> LoadTree(const Database::Reader& reader, const std::string& episode_id,
                                         bool with_calls);
absl::StatusOr<v1::Group> ReadGroup(const Database::Reader& reader, const v1::GetGroupRequest& request);
absl::StatusOr<v1::ListEpisodesResponse> ReadEpisodes(const Database::Reader& reader,
                                                      const v1::ListEpisodesRequest& request);
absl::StatusOr<v1::ReadJournalResponse> ReadJournalPage(const Database::Reader& reader,
                                                        const v1::ReadJournalRequest& request);
absl::StatusOr<v1::PoolStatusResponse> ReadStatus(const Database::Reader& reader);
// Returns DATA_LOSS if the journal's last records are missing, or if it has records beyond its count.
absl::Status CheckJournalEnd(const Database::Reader& reader);
// Returns keys in the `order` family.
absl::StatusOr<std::vector<std::string>> EpisodesToTrim(const Database::Reader& reader, const v1::TrimRequest& request);

}  // namespace ingot::datapool
