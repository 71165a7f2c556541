#include "view/evaluation/svg_chart.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/log.h"
#include "view/safe_text.h"

namespace ingot::view {
namespace {

constexpr std::array<const char*, kSvgColours> kColours = {"#c2571a", "#2f74b5", "#3a8a54", "#8a5ab5",
                                                           "#b5852f", "#b53a5c", "#3a9aa0", "#7a7a7a"};
constexpr double kWidth = 460, kHeight = 180, kLeft = 52, kRight = 24, kTop = 8, kBottom = 20;

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

// Draws lines and numbers at the ends and the middle of both axes, or one number if an axis has only one value.
std::string Axes(const Range& x, const Range& y) {
  std::string html;
  for (const double share : {0.0, 0.5, 1.0}) {
    const double at = kTop + kHeight * (1 - share);
    html += fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}h{:.0f}\"/>", kLeft, at, kWidth);
    if (y.high > y.low || share == 0.5) {
      html += fmt::format("<text class=\"axis\" text-anchor=\"end\" x=\"{:.0f}\" y=\"{:.0f}\">{}</text>", kLeft - 4,
                          at + 4, Number(y.low + share * (y.high - y.low)));
    }
    if (x.high > x.low || share == 0.5) {
      html += fmt::format("<text class=\"axis\" text-anchor=\"middle\" x=\"{:.0f}\" y=\"{:.0f}\">{}</text>",
                          kLeft + kWidth * share, kTop + kHeight + 15, Number(x.low + share * (x.high - x.low)));
    }
  }
  return html;
}

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
  html +=
      fmt::format("<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}: from {} to {}\">",
                  kLeft + kWidth + kRight, kTop + kHeight + kBottom, HtmlText(title), Number(y.low), Number(y.high));
  html += Axes(x, y);
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
  html += "</svg><p>";
  for (size_t s = 0; s < series.size(); ++s) {
    html += fmt::format("<span class=\"key\" style=\"--c:{}\">{}</span> ", kColours[s % kColours.size()],
                        HtmlText(series[s].name));
  }
  return html + "</p></figure>\n";
}

}  // namespace ingot::view
