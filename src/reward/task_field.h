// A field of a task, for terms that read it. Pure.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "base/status.h"
#include "proto/tree.pb.h"

namespace ingot::reward {

// The value at a dotted path of the task's payload ("answers.0"). nullopt: no such value, or `path` is empty.
// FAILED_PRECONDITION: the payload is not JSON.
absl::StatusOr<std::optional<base::json::value>> TaskField(const v1::Task& task, const std::string& path);

}  // namespace ingot::reward
