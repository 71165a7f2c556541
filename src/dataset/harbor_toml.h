// The task.toml of a Harbor task (dataset/harbor.h), read strictly: a value of the wrong type or out of bounds is an
// error, and a key that Harbor's schema lacks is noted. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace ingot::dataset {

struct HarborToml {
  base::json::object payload;      // the fields that the task names, as reward/harbor_task.h reads them
  std::string domain;              // metadata.category; empty = none
  std::string docker_image;        // empty = none
  std::vector<std::string> notes;  // "KEY: the substitute"
};

// INVALID_ARGUMENT names the line, the key, the value found and the values wanted, or says what sandboxes lack. After
// an error `read` still has the notes on unknown keys, because a misspelled key may be the cause.
absl::Status ReadHarborToml(const std::string& text, HarborToml& read);

}  // namespace ingot::dataset
