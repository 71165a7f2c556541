// Reads a Harbor task's task.toml (dataset/harbor.h) strictly: a value with the wrong type or out of bounds is an
// error, and a key that is not in Harbor's schema is noted. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace ingot::dataset {

struct HarborToml {
  base::json::object payload;      // the fields that the task specifies, in the format of reward/harbor_task.h
  std::string domain;              // metadata.category; empty = none
  std::string docker_image;        // empty = none
  std::vector<std::string> notes;  // "KEY: what is used instead"
};

// Returns INVALID_ARGUMENT with the line, the key, the actual value, and the allowed values, or the feature that
// sandboxes lack. After an error, `read` still has the notes, because a misspelled key may be the cause.
absl::Status ReadHarborToml(const std::string& text, HarborToml& read);

}  // namespace ingot::dataset
