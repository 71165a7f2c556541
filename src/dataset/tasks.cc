#include "dataset/tasks.h"

#include <iterator>
#include <unordered_map>
#include <utility>

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

std::string RemarkOn(const std::string& path, const HarborFolder& folder) {
  const std::string more = absl::StrCat("; `ingot tasks check ", path, "` lists all");
  const auto first = [](const HarborFolder::Remark& remark) { return absl::StrCat(remark.name, ": ", remark.text); };
  if (!folder.refused.empty()) {
    return absl::StrCat(folder.tasks.size(), " of ", folder.tasks.size() + folder.refused.size(), " tasks of ", path,
                        " run here; the first refused is ", first(folder.refused[0]), more);
  }
  if (folder.notes.empty()) return "";
  return absl::StrCat(folder.notes.size(), folder.notes.size() == 1 ? " field" : " fields", " of the tasks of ", path,
                      " not honoured; the first is of ", first(folder.notes[0]), more);
}

absl::StatusOr<TaskSource> ReadFolder(const std::string& path) {
  INGOT_ASSIGN_OR_RETURN(HarborFolder folder, ReadHarborFolder(path));
  if (folder.tasks.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": none of its ", folder.refused.size(), " tasks runs here; '",
                                                   folder.refused[0].name, "': ", folder.refused[0].text,
                                                   " (`ingot tasks check` lists all)"));
  }
  TaskSource source{.tasks = {}, .refused = std::ssize(folder.refused), .remark = RemarkOn(path, folder)};
  source.tasks = std::move(folder.tasks);
  return source;
}

}  // namespace

absl::StatusOr<std::vector<v1::Task>> LoadTasks(const std::string& path, const JsonlOptions& options) {
  INGOT_ASSIGN_OR_RETURN(TaskSource source, ReadTasks(path, options));
  return std::move(source.tasks);
}

void AddTaskSet(const std::string& name, TaskSource set, TaskSource& all) {
  for (v1::Task& task : set.tasks) {
    task.set_eval_set(name);
    all.tasks.push_back(std::move(task));
  }
  all.refused += set.refused;
  if (!set.remark.empty()) absl::StrAppend(&all.remark, all.remark.empty() ? "" : "; ", set.remark);
}

absl::StatusOr<TaskSource> ReadTasks(const std::string& path, const JsonlOptions& options) {
  if (IsHarborFolder(path)) return ReadFolder(path);
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
  return TaskSource{.tasks = std::move(tasks), .refused = 0, .remark = ""};
}

}  // namespace ingot::dataset
