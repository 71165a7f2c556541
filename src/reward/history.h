// Stores the measures of judged groups by task. A term estimates measures in a task's first groups and uses them in
// later groups (GroupFacts.history).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "datapool/client.h"
#include "proto/tree.pb.h"

namespace ingot::reward {

// Not thread safe.
class TaskHistory {
 public:
  using OfTask = std::map<std::string, std::map<std::string, double>>;  // term -> measure -> number

  // Adds a grade's measures. Only the first value of each measure is kept.
  void Add(const std::string& task_id, const v1::Grade& grade);
  // Returns an empty map if no judged group of the task has measures.
  const OfTask& Of(const std::string& task_id) const;

 private:
  std::map<std::string, OfTask> tasks_;
};

// Builds the history from a pool's groups in ascending id order.
absl::StatusOr<TaskHistory> ReadHistory(datapool::Client& pool, v1::EpisodePurpose purpose);

// Returns the measures in the group's stored grades, or nullopt if this rule (Rule::key) did not judge the group.
std::optional<TaskHistory::OfTask> MeasuresOf(const v1::Group& group, std::string_view rule);

}  // namespace ingot::reward
