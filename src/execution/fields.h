// Typed fields of JSON requests. Every error is INVALID_ARGUMENT, and names the field, its value and what it must be.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace ingot::execution {

// A value of at most kMostValues values: they take memory, not bytes.
absl::StatusOr<base::json::value> ParseBody(std::string_view body);
// A body that is an object; "" = an empty one.
absl::StatusOr<base::json::value> ParseObject(const std::string& body);

inline constexpr size_t kMostValues = 1'000'000;
inline constexpr size_t kMostNames = 4096;  // of an object of strings: files, variables

// The keys that one kind of request and its object "limits" may have.
struct Keys {
  std::string kind;  // for errors: "a batch"
  std::vector<std::string> request, limits;
};
// Rejects keys that are not in `keys`, and suggests the nearest one.
absl::Status CheckKeys(const base::json::value& request, const Keys& keys);

// "'NAME' is VALUE: it must be WANTED"
absl::Status WrongType(std::string_view name, const base::json::value& found, std::string_view wanted);

// A missing field and null are the same. An object of strings has at most kMostNames.
absl::StatusOr<std::string> TextOf(const base::json::value& json, std::string_view name);
absl::StatusOr<std::string> TextField(const base::json::value& request, std::string_view name, std::string otherwise);
absl::StatusOr<std::map<std::string, std::string>> MapField(const base::json::value& request, std::string_view name);
absl::StatusOr<bool> FlagField(const base::json::value& request, std::string_view name);

struct Range {
  double least = 0;  // 0 = every number above 0
  double most = 0;
  bool is_whole = false;  // no fractions
};
// A number of the object "limits".
absl::StatusOr<double> LimitField(const base::json::value& request, std::string_view name, double otherwise,
                                  const Range& range);

}  // namespace ingot::execution
