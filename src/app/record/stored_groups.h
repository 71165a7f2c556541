// Visits the groups in a stored pool. These are the training groups or, if there are none, the groups from an
// evaluation or a collection.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "app/terminal/progress.h"
#include "base/status.h"
#include "datapool/client.h"

namespace ingot::app {

struct StoredGroupIds {
  v1::EpisodePurpose purpose = v1::PURPOSE_TRAIN;
  std::vector<int64_t> ids;  // ascending
};
absl::StatusOr<StoredGroupIds> ListGroups(datapool::Client& pool);

// Returns the group with its trees, or nullopt if the pool no longer has it.
absl::StatusOr<std::optional<v1::Group>> FindGroup(datapool::Client& pool, v1::EpisodePurpose purpose, int64_t id);

// Visits every group with its trees and shows the progress. Skips groups that are deleted in the meantime.
absl::Status VisitGroups(datapool::Client& pool, Progress& progress,
                         const std::function<absl::Status(const v1::Group&)>& visit);

}  // namespace ingot::app
