// Measures of judged groups, by task: numbers that a term estimates in the first groups of a task and then uses
// (GroupFacts.history).
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

  // A measure's first number counts; later numbers change nothing.
  void Add(const std::string& task_id, const v1::Grade& grade);
  // Empty = no judged group of the task has measures.
  const OfTask& Of(const std::string& task_id) const;

 private:
  std::map<std::string, OfTask> tasks_;
};

// The history of a pool's groups, in ascending order.
absl::StatusOr<TaskHistory> ReadHistory(datapool::Client& pool, v1::EpisodePurpose purpose);

// The measures in the group's stored grades, if this rule (Rule::key) judged it. nullopt = it did not.
std::optional<TaskHistory::OfTask> MeasuresOf(const v1::Group& group, std::string_view rule);

}  // namespace ingot::reward
