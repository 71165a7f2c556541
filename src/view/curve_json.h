// Curves of a record as JSON, and what a request for curves asks for. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "view/query.h"
#include "view/rows.h"

namespace ingot::view {

struct CurveWish {
  std::vector<std::string> names;
  size_t points = 400;

  // From the parameters "names" and "points". INVALID_ARGUMENT: too many names, or no number.
  static absl::StatusOr<CurveWish> Of(const Query& query);
};

base::json::object CurveJson(const Curve& curve);
// What is not finite is null.
base::json::array NumbersJson(const std::vector<double>& numbers);

}  // namespace ingot::view
