#include "app/record/stored_groups.h"

#include "app/record/stored_episodes.h"

namespace ingot::app {

absl::StatusOr<StoredGroupIds> ListGroups(datapool::Client& pool) {
  StoredGroupIds groups;
  for (const v1::EpisodePurpose purpose : {v1::PURPOSE_TRAIN, v1::PURPOSE_EVAL}) {
    groups.purpose = purpose;
    INGOT_RETURN_IF_ERROR(VisitEpisodes(pool, purpose, [&](const v1::Episode& episode) {
      const int64_t id = episode.ref().group_id();
      if (groups.ids.empty() || groups.ids.back() != id) groups.ids.push_back(id);
    }));
    if (!groups.ids.empty()) break;
  }
  return groups;
}

absl::StatusOr<std::optional<v1::Group>> FindGroup(datapool::Client& pool, v1::EpisodePurpose purpose, int64_t id) {
  v1::GetGroupRequest request;
  request.set_group_id(id);
  request.set_purpose(purpose);
  absl::StatusOr<v1::Group> group = pool.GetGroup(request);
  if (absl::IsNotFound(group.status())) return std::nullopt;
  INGOT_RETURN_IF_ERROR(group.status());
  return *std::move(group);
}

absl::Status VisitGroups(datapool::Client& pool, Progress& progress,
                         const std::function<absl::Status(const v1::Group&)>& visit) {
  progress.Show("listing groups");
  INGOT_ASSIGN_OR_RETURN(const StoredGroupIds groups, ListGroups(pool));
  int64_t visited = 0;
  for (const int64_t id : groups.ids) {
    progress.Show("groups", visited++, std::ssize(groups.ids));
    INGOT_ASSIGN_OR_RETURN(const std::optional<v1::Group> group, FindGroup(pool, groups.purpose, id));
    if (!group.has_value()) continue;  // deleted by the run in the meantime
    INGOT_RETURN_IF_ERROR(visit(*group));
  }
  progress.Clear();
  return absl::OkStatus();
}

}  // namespace ingot::app
