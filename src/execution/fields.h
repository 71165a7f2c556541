// Reads typed fields from JSON requests. All errors are INVALID_ARGUMENT and name the field, its value, and the
// expected type.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace ingot::execution {

// Parses a body. Allows at most kMaxValues values, because even small values use memory.
absl::StatusOr<base::json::value> ParseBody(std::string_view body);
// Parses an object; an empty body is an empty object.
absl::StatusOr<base::json::value> ParseObject(const std::string& body);

inline constexpr size_t kMaxValues = 1'000'000;
inline constexpr size_t kMaxNames = 4096;  // limit for objects of strings, such as files and variables

// The keys allowed in one kind of request and in its "limits" object.
struct Keys {
  std::string kind;  // name for errors, such as "a batch"
  std::vector<std::string> request, limits;
};
// Rejects keys that are not in `keys` and suggests the closest one.
absl::Status CheckKeys(const base::json::value& request, const Keys& keys);

// Returns the error "'NAME' is VALUE: it must be WANTED".
absl::Status WrongType(std::string_view name, const base::json::value& found, std::string_view wanted);

// These functions treat null as a missing field. An object of strings may have at most kMaxNames entries.
absl::StatusOr<std::string> TextOf(const base::json::value& json, std::string_view name);
absl::StatusOr<std::string> TextField(const base::json::value& request, std::string_view name, std::string otherwise);
absl::StatusOr<std::map<std::string, std::string>> MapField(const base::json::value& request, std::string_view name);
absl::StatusOr<bool> FlagField(const base::json::value& request, std::string_view name);

struct Range {
  double least = 0;  // inclusive minimum; 0 = the value must be greater than 0
  double most = 0;
  bool is_whole = false;  // integers only
};
// Reads a number from the "limits" object.
absl::StatusOr<double> LimitField(const base::json::value& request, std::string_view name, double otherwise,
                                  const Range& range);

}  // namespace ingot::execution
