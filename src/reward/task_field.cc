#include "reward/task_field.h"

#include "base/json_text.h"

namespace ingot::reward {

absl::StatusOr<std::optional<base::json::value>> TaskField(const v1::Task& task, const std::string& path) {
  if (path.empty() || task.payload_json().empty()) return std::nullopt;
  const auto payload = base::ParseJson(task.payload_json());
  if (!payload.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the payload of task '", task.task_id(), "' is not JSON: ", payload.status().message()));
  }
  const auto part = base::JsonText(task.payload_json()).At(path);
  if (!part.has_value()) return std::nullopt;
  INGOT_ASSIGN_OR_RETURN(base::json::value value, base::ParseJson(part->text()));
  return value;
}

}  // namespace ingot::reward
