// Tasks: a folder of Harbor tasks (dataset/harbor.h), whose refused ones are left out, or a JSONL file, one task per line. A line is any JSON object; this reader looks at two of its fields.
//
//   {"task_id": "sum-17", "domain": "arithmetic", "question": ..., "answer": ...}
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "dataset/jsonl.h"
#include "proto/tree.pb.h"

namespace ingot::dataset {

// The tasks in the file's order, each with its line as payload. task_id: a string or an integer; absent = the content
// key of the line. domain: a string; absent = empty. INVALID_ARGUMENT names file and line: two tasks have one id (equal
// lines without ids do), or the file has no task.
absl::StatusOr<std::vector<v1::Task>> LoadTasks(const std::string& path, const JsonlOptions& options = {});

}  // namespace ingot::dataset
