#include "dataset/tasks.h"

#include <unordered_map>

#include "base/checksum.h"
#include "dataset/harbor.h"

namespace ingot::dataset {
namespace {

namespace json = base::json;

absl::StatusOr<std::string> TaskId(std::string_view text, const json::value& object) {
  const json::value* id = base::Find(object, "task_id");
  if (id == nullptr || id->is_null()) return base::Hex(base::ContentKey(text));
  if (id->is_int64()) return std::to_string(id->get_int64());
  if (!id->is_string() || id->get_string().empty()) {
    return absl::InvalidArgumentError("'task_id' must be a string that is not empty, or an integer");
  }
  return std::string(id->get_string());
}

absl::StatusOr<std::string> Domain(const json::value& object) {
  const json::value* domain = base::Find(object, "domain");
  if (domain == nullptr || domain->is_null()) return std::string();
  if (!domain->is_string()) return absl::InvalidArgumentError("'domain' must be a string");
  return std::string(domain->get_string());
}

}  // namespace

absl::StatusOr<std::vector<v1::Task>> LoadTasks(const std::string& path, const JsonlOptions& options) {
  if (IsHarborFolder(path)) {
    INGOT_ASSIGN_OR_RETURN(HarborFolder folder, ReadHarborFolder(path));
    if (!folder.tasks.empty()) return std::move(folder.tasks);
    return absl::InvalidArgumentError(absl::StrCat(path, ": none of its ", folder.refused.size(), " tasks runs here; '",
                                                   folder.refused[0].name, "': ", folder.refused[0].text,
                                                   " (`ingot tasks check` lists all)"));
  }
  std::vector<v1::Task> tasks;
  std::unordered_map<std::string, int64_t> lines;  // by id
  INGOT_RETURN_IF_ERROR(
      ReadJsonl(path, options, [&](int64_t number, std::string_view text, const json::value& object) -> absl::Status {
        v1::Task task;
        INGOT_ASSIGN_OR_RETURN(std::string id, TaskId(text, object));
        INGOT_ASSIGN_OR_RETURN(std::string domain, Domain(object));
        const auto [first, fresh] = lines.emplace(id, number);
        if (!fresh) {
          return absl::InvalidArgumentError(
              absl::StrCat("the task id '", id, "' is that of line ", first->second, " too"));
        }
        task.set_task_id(std::move(id));
        task.set_domain(std::move(domain));
        task.set_payload_json(std::string(text));
        tasks.push_back(std::move(task));
        return absl::OkStatus();
      }));
  if (tasks.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": there is no task in it"));
  return tasks;
}

}  // namespace ingot::dataset
