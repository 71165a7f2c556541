// Limits the number of JSON values in untrusted input.
#pragma once

#include <string_view>

#include "base/json_text.h"

namespace ingot::gateway {

// Parsed JSON uses memory per value rather than per byte. In a list of numbers, two bytes become fifty. So a body, or a
// JSON string inside it, is parsed only if it has at most this many values. The limit leaves room for a list of a
// million token ids.
inline constexpr size_t kMaxBodyValues = 2'000'000;

// REQUIRES: `json` is well formed.
inline bool HasTooManyValues(std::string_view json) {
  return json.size() / 2 > kMaxBodyValues && base::CountJsonValues(json) > kMaxBodyValues;
}

}  // namespace ingot::gateway
