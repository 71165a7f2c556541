// The limit on JSON values in one text from outside.
#pragma once

#include <string_view>

#include "base/json_text.h"

namespace ingot::gateway {

// Parsing uses memory per value, not per byte: two bytes of a list of numbers become fifty. So a body, or a JSON string
// in it, is parsed only if it has at most this many values: enough for a list of a million token ids.
inline constexpr size_t kMaxBodyValues = 2'000'000;

// REQUIRES: well-formed JSON.
inline bool HasTooManyValues(std::string_view json) {
  return json.size() / 2 > kMaxBodyValues && base::CountJsonValues(json) > kMaxBodyValues;
}

}  // namespace ingot::gateway
