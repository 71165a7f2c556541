#include "reward/history.h"

namespace ingot::reward {

void TaskHistory::Add(const std::string& task_id, const v1::Grade& grade) {
  for (const v1::TermValue& term : grade.terms()) {
    for (const auto& [measure, number] : term.measures()) tasks_[task_id][term.term()].emplace(measure, number);
  }
}

const TaskHistory::OfTask& TaskHistory::Of(const std::string& task_id) const {
  static const OfTask* const none = new OfTask();
  const auto found = tasks_.find(task_id);
  return found == tasks_.end() ? *none : found->second;
}

absl::StatusOr<TaskHistory> ReadHistory(datapool::Client& pool, v1::EpisodePurpose purpose) {
  TaskHistory history;
  for (datapool::EpisodePages pages(pool, purpose, 0, -1); !pages.done();) {
    INGOT_ASSIGN_OR_RETURN(const v1::ListEpisodesResponse page, pages.Next());
    for (const v1::Episode& episode : page.episodes()) {
      if (episode.has_grade()) history.Add(episode.task().task_id(), episode.grade());
    }
  }
  return history;
}

std::optional<TaskHistory::OfTask> MeasuresOf(const v1::Group& group, std::string_view rule) {
  TaskHistory history;
  bool judged = false;
  for (const v1::EpisodeTree& tree : group.episodes()) {
    const v1::Episode& episode = tree.episode();
    if (!episode.has_grade() || episode.grade().rule() != rule) continue;
    judged = true;
    history.Add(group.task().task_id(), episode.grade());
  }
  if (!judged) return std::nullopt;
  return history.Of(group.task().task_id());
}

}  // namespace ingot::reward
