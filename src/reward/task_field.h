// A field of a task, for terms that go by it. Pure.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "base/status.h"
#include "proto/tree.pb.h"

namespace ingot::reward {

// The value at a dotted path of the task's payload ("answers.0"). nullopt: it has none, or `path` is empty.
// FAILED_PRECONDITION: the payload is no JSON.
absl::StatusOr<std::optional<base::json::value>> TaskField(const v1::Task& task, const std::string& path);

}  // namespace ingot::reward
