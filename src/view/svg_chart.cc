#include "view/svg_chart.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/log.h"
#include "view/safe_text.h"

namespace ingot::view {
namespace {

constexpr std::array<const char*, kSvgColours> kColours = {"#c2571a", "#2f74b5", "#3a8a54", "#8a5ab5",
                                                           "#b5852f", "#b53a5c", "#3a9aa0", "#7a7a7a"};
constexpr double kWidth = 460, kHeight = 180, kLeft = 8, kTop = 8;

struct Range {
  double low = INFINITY, high = -INFINITY;
  void Add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return !(low <= high); }
  double Share(double value) const { return high > low ? (value - low) / (high - low) : 0.5; }
};

std::string Number(double value) { return fmt::format("{:.4g}", value); }

}  // namespace

std::string HtmlText(const std::string& text) {
  std::string html;
  for (const char c : SafeText(text)) {
    switch (c) {
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      case '&':
        html += "&amp;";
        break;
      case '"':
        html += "&quot;";
        break;
      case '\'':
        html += "&#39;";
        break;
      default:
        html += c;
    }
  }
  return html;
}

std::string SvgChart(const std::string& title, const std::vector<SvgSeries>& series) {
  Range x, y;
  for (const SvgSeries& one : series) {
    for (size_t i = 0; i < one.x.size(); ++i) {
      if (!std::isfinite(one.x[i]) || !std::isfinite(one.y[i])) continue;
      x.Add(one.x[i]);
      y.Add(one.y[i]);
    }
  }
  std::string html = "<figure><figcaption>" + HtmlText(title) + "</figcaption>";
  if (y.empty()) return html + "<p>no values</p></figure>\n";
  html += fmt::format("<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}: from {} to {}\">",
                      kWidth + 2 * kLeft, kHeight + 2 * kTop, HtmlText(title), Number(y.low), Number(y.high));
  for (const double level : {0.0, 0.5, 1.0}) {
    const double at = kTop + kHeight * level;
    html += fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}h{:.0f}\"/>", kLeft, at, kWidth);
  }
  for (size_t s = 0; s < series.size(); ++s) {
    std::string path;
    for (size_t i = 0; i < series[s].x.size(); ++i) {
      if (!std::isfinite(series[s].x[i]) || !std::isfinite(series[s].y[i])) continue;
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", kLeft + kWidth * x.Share(series[s].x[i]),
                          kTop + kHeight * (1 - y.Share(series[s].y[i])));
    }
    if (path.empty()) continue;
    html += fmt::format("<path class=\"curve\" stroke=\"{}\" d=\"{}\"/>", kColours[s % kColours.size()], path);
  }
  html += fmt::format("</svg><p class=\"range\">steps {} to {}; values {} to {}</p><p>", Number(x.low), Number(x.high),
                      Number(y.low), Number(y.high));
  for (size_t s = 0; s < series.size(); ++s) {
    html += fmt::format("<span class=\"key\" style=\"--c:{}\">{}</span> ", kColours[s % kColours.size()],
                        HtmlText(series[s].name));
  }
  return html + "</p></figure>\n";
}

}  // namespace ingot::view
