// Converts curves to JSON and parses requests for curves. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "view/query.h"
#include "view/rows.h"

namespace ingot::view {

struct CurveQuery {
  std::vector<std::string> names;
  size_t points = 400;

  // Reads the "names" and "points" parameters. Returns INVALID_ARGUMENT if there are too many names or "points" is not
  // a number.
  static absl::StatusOr<CurveQuery> Of(const Query& query);
};

base::json::object CurveJson(const Curve& curve);
// Values that are not finite become null.
base::json::array NumbersJson(const std::vector<double>& numbers);

}  // namespace ingot::view
