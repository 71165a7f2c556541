// Reads a task's fields for terms. Pure.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "base/status.h"
#include "proto/tree.pb.h"

namespace ingot::reward {

// Returns the value at a dotted path in the task's payload, such as "answers.0". Returns nullopt if there is no such
// value or `path` is empty, and FAILED_PRECONDITION if the payload is not JSON.
absl::StatusOr<std::optional<base::json::value>> TaskField(const v1::Task& task, const std::string& path);

}  // namespace ingot::reward
