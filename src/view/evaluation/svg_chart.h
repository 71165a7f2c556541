// Draws a line chart as an SVG element, for pages without scripts. Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ingot::view {

struct SvgSeries {
  std::string name;          // untrusted
  std::vector<double> x, y;  // same length; non-finite values are omitted
};

// Returns text that is safe in an HTML page: SafeText, with markup characters escaped.
std::string HtmlText(const std::string& text);

inline constexpr size_t kSvgColours = 8;  // a chart with more series reuses colors

// Draws the series with a legend and numbered axes. `title` is untrusted. If there are no finite values, draws the
// title and "no values".
std::string SvgChart(const std::string& title, const std::vector<SvgSeries>& series);

}  // namespace ingot::view
