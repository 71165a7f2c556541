// A chart of curves as an SVG element, for pages without scripts. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ingot::view {

struct SvgSeries {
  std::string name;          // untrusted
  std::vector<double> x, y;  // of equal length; non-finite values are left out
};

// Text that is safe in an HTML page: SafeText, with markup characters escaped.
std::string HtmlText(const std::string& text);

inline constexpr size_t kSvgColours = 8;  // a chart of more series repeats its colours

// The series with a legend and numbered axes. `title` is untrusted. Without finite
// values: the title and "no values".
std::string SvgChart(const std::string& title, const std::vector<SvgSeries>& series);

}  // namespace ingot::view
