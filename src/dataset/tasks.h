// Reads tasks from a folder of Harbor tasks (dataset/harbor.h), or from a JSONL file with one task per line. A line is
// any JSON object. This reader uses two of its fields. Tasks in a folder that cannot run here are skipped. An invalid
// line makes the entire file invalid.
//
//   {"task_id": "sum-17", "domain": "arithmetic", "question": ..., "answer": ...}
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "dataset/jsonl.h"
#include "proto/tree.pb.h"

namespace ingot::dataset {

struct TaskSource {
  std::vector<v1::Task> tasks;
  int64_t rejected = 0;  // skipped tasks in the folder
  // Describes in one line how the tasks differ from the folder: the skipped tasks, or else the unsupported fields.
  // Empty = no difference.
  std::string remark;
};

// Returns the tasks in file order, each with its line as the payload. task_id is a string or an integer; if absent, it
// is the content key of the line. domain is a string; if absent, it is empty. Returns INVALID_ARGUMENT with the file
// and line if two tasks have the same id (as do equal lines without ids), if the file has no tasks, or if no task in
// the folder can run here.
absl::StatusOr<TaskSource> ReadTasks(const std::string& path, const JsonlOptions& options = {});
absl::StatusOr<std::vector<v1::Task>> LoadTasks(const std::string& path, const JsonlOptions& options = {});
// Same as above, but for several files or folders, in order, as if they were one file. Task ids must be unique across
// them, and each must have at least one task.
absl::StatusOr<TaskSource> ReadTasks(const std::vector<std::string>& paths, const JsonlOptions& options = {});
absl::StatusOr<std::vector<v1::Task>> LoadTasks(const std::vector<std::string>& paths,
                                                const JsonlOptions& options = {});

// Appends a held-out task set to `all`. `name` becomes the tasks' eval_set. Different sets may share ids.
void AddTaskSet(const std::string& name, TaskSource set, TaskSource& all);

}  // namespace ingot::dataset
