#include "view/json/curve_json.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace ingot::view {
namespace {

constexpr size_t kMaxCurves = 64;

}  // namespace

absl::StatusOr<CurveQuery> CurveQuery::Of(const Query& query) {
  CurveQuery curve_query;
  INGOT_ASSIGN_OR_RETURN(const std::optional<int64_t> points, query.Integer("points"));
  curve_query.points = static_cast<size_t>(std::clamp<int64_t>(points.value_or(400), 2, 4000));
  curve_query.names = absl::StrSplit(query.Text("names"), ',', absl::SkipEmpty());
  if (curve_query.names.size() > kMaxCurves) {
    return absl::InvalidArgumentError(absl::StrCat("names: at most ", kMaxCurves, " curves at a time"));
  }
  return curve_query;
}

base::json::array NumbersJson(const std::vector<double>& numbers) {
  base::json::array list;
  for (const double number : numbers) {
    list.push_back(std::isfinite(number) ? base::json::value(number) : base::json::value(nullptr));
  }
  return list;
}

base::json::object CurveJson(const Curve& curve) {
  return {{"steps", NumbersJson(curve.steps)},
          {"mean", NumbersJson(curve.mean)},
          {"low", NumbersJson(curve.low)},
          {"high", NumbersJson(curve.high)}};
}

}  // namespace ingot::view
