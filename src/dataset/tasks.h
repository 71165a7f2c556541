// Tasks: a folder of Harbor tasks (dataset/harbor.h), or a JSONL file, one task per line. A line is any JSON object;
// this reader uses two of its fields. A folder's task that does not run here is left out. A wrong line fails the whole
// file.
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
  int64_t rejected = 0;  // tasks of the folder that are left out
  // What a run does differently from the folder, in one line for people: the tasks left out, or else the unsupported
  // fields. Empty = nothing.
  std::string remark;
};

// The tasks in the file's order, each with its line as payload. task_id: a string or an integer; absent = the content
// key of the line. domain: a string; absent = empty. INVALID_ARGUMENT names file and line: two tasks have the same id
// (equal lines without ids do), the file has no task, or no task of the folder runs here.
absl::StatusOr<TaskSource> ReadTasks(const std::string& path, const JsonlOptions& options = {});
absl::StatusOr<std::vector<v1::Task>> LoadTasks(const std::string& path, const JsonlOptions& options = {});
// The same for several files or folders, in their order, as if they were one file: task ids are unique across them.
// Each must have a task.
absl::StatusOr<TaskSource> ReadTasks(const std::vector<std::string>& paths, const JsonlOptions& options = {});
absl::StatusOr<std::vector<v1::Task>> LoadTasks(const std::vector<std::string>& paths,
                                                const JsonlOptions& options = {});

// Appends a set of held-out tasks to other sets. `name` becomes the tasks' eval_set; tasks of different sets may have
// the same id.
void AddTaskSet(const std::string& name, TaskSource set, TaskSource& all);

}  // namespace ingot::dataset
