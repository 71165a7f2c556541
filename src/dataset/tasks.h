// Task files: JSONL, one task per line. A line is any JSON object; two of its fields mean something here.
//
//   {"task_id": "sum-17", "domain": "arithmetic", "question": ..., "answer": ...}
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "dataset/jsonl.h"
#include "proto/tree.pb.h"

namespace ingot::dataset {

// The tasks in the file's order, each with its line as payload. task_id is a string or an integer, by default the
// content key of the line; domain is a string, by default empty. INVALID_ARGUMENT naming file and line for an id that
// is there twice (equal lines without ids included) or a file without a task.
absl::StatusOr<std::vector<v1::Task>> LoadTasks(const std::string& path, const JsonlOptions& options = {});

}  // namespace ingot::dataset
