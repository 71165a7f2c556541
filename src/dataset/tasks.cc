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
    return absl::InvalidArgumentError("'task_id' must be a nonempty string or an integer");
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
  if (!folder.rejected.empty()) {
    return absl::StrCat(folder.tasks.size(), " of ", folder.tasks.size() + folder.rejected.size(), " tasks of ", path,
                        " can run here; the first rejected task is ", first(folder.rejected[0]), more);
  }
  if (folder.notes.empty()) return "";
  return absl::StrCat(folder.notes.size(), folder.notes.size() == 1 ? " field" : " fields", " of the tasks of ", path,
                      " not supported; the first belongs to ", first(folder.notes[0]), more);
}

absl::StatusOr<TaskSource> ReadFolder(const std::string& path) {
  INGOT_ASSIGN_OR_RETURN(HarborFolder folder, ReadHarborFolder(path));
  if (folder.tasks.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": none of its ", folder.rejected.size(),
                                                   " tasks can run here; '", folder.rejected[0].name,
                                                   "': ", folder.rejected[0].text, " (`ingot tasks check` lists all)"));
  }
  TaskSource source{.tasks = {}, .rejected = std::ssize(folder.rejected), .remark = RemarkOn(path, folder)};
  source.tasks = std::move(folder.tasks);
  return source;
}

// Where a task was read from.
struct Place {
  const std::string* path = nullptr;
  int64_t line = 0;  // 0 = a task in a folder
};
using Places = std::unordered_map<std::string, Place>;  // by task id

// Returns INVALID_ARGUMENT if another task has the id.
absl::Status Claim(const std::string& id, const Place& place, Places& places) {
  const auto [first, fresh] = places.emplace(id, place);
  if (fresh) return absl::OkStatus();
  const Place& other = first->second;
  const std::string line = other.line > 0 ? absl::StrCat(other.line) : "";
  const std::string where = other.path == place.path ? absl::StrCat("line ", line)
                            : line.empty()           ? absl::StrCat("a task of ", *other.path)
                                                     : absl::StrCat(*other.path, ":", line);
  return absl::InvalidArgumentError(absl::StrCat("the task id '", id, "' is already used by ", where));
}

// Adds the tasks in a file or folder. `path` must outlive `places`.
absl::Status Append(const std::string& path, const JsonlOptions& options, Places& places, TaskSource& all) {
  if (IsHarborFolder(path)) {
    INGOT_ASSIGN_OR_RETURN(TaskSource folder, ReadFolder(path));
    for (v1::Task& task : folder.tasks) {
      INGOT_RETURN_IF_ERROR(base::Annotate(Claim(task.task_id(), {.path = &path, .line = 0}, places), path));
      all.tasks.push_back(std::move(task));
    }
    all.rejected += folder.rejected;
    if (!folder.remark.empty()) absl::StrAppend(&all.remark, all.remark.empty() ? "" : "; ", folder.remark);
    return absl::OkStatus();
  }
  const size_t before = all.tasks.size();
  INGOT_RETURN_IF_ERROR(
      ReadJsonl(path, options, [&](int64_t number, std::string_view text, const json::value& object) -> absl::Status {
        v1::Task task;
        INGOT_ASSIGN_OR_RETURN(std::string id, TaskId(text, object));
        INGOT_ASSIGN_OR_RETURN(std::string domain, Domain(object));
        INGOT_RETURN_IF_ERROR(Claim(id, {.path = &path, .line = number}, places));
        task.set_task_id(std::move(id));
        task.set_domain(std::move(domain));
        task.set_payload_json(std::string(text));
        all.tasks.push_back(std::move(task));
        return absl::OkStatus();
      }));
  if (all.tasks.size() > before) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": the file has no tasks"));
}

}  // namespace

void AddTaskSet(const std::string& name, TaskSource set, TaskSource& all) {
  for (v1::Task& task : set.tasks) {
    task.set_eval_set(name);
    all.tasks.push_back(std::move(task));
  }
  all.rejected += set.rejected;
  if (!set.remark.empty()) absl::StrAppend(&all.remark, all.remark.empty() ? "" : "; ", set.remark);
}

absl::StatusOr<TaskSource> ReadTasks(const std::vector<std::string>& paths, const JsonlOptions& options) {
  if (paths.empty()) return absl::InvalidArgumentError("no task file is set");
  TaskSource all;
  Places places;
  for (const std::string& path : paths) INGOT_RETURN_IF_ERROR(Append(path, options, places, all));
  return all;
}

absl::StatusOr<TaskSource> ReadTasks(const std::string& path, const JsonlOptions& options) {
  return ReadTasks(std::vector<std::string>{path}, options);
}

absl::StatusOr<std::vector<v1::Task>> LoadTasks(const std::vector<std::string>& paths, const JsonlOptions& options) {
  INGOT_ASSIGN_OR_RETURN(TaskSource source, ReadTasks(paths, options));
  return std::move(source.tasks);
}

absl::StatusOr<std::vector<v1::Task>> LoadTasks(const std::string& path, const JsonlOptions& options) {
  return LoadTasks(std::vector<std::string>{path}, options);
}

}  // namespace ingot::dataset
