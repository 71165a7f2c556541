#include "base/metrics.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <utility>

#include "base/log.h"
#include "base/printable.h"

namespace ingot::base {
namespace {

constexpr std::array kDefaultSeconds = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1,  0.2,
                                        0.5,   1.0,   2.0,   5.0,  10.0, 20.0, 50.0, 100.0};

constexpr char kOther[] = "other";
constexpr char kOtherTotal[] = "ingot_metrics_labels_other_total";
constexpr size_t kMaxValueBytes = 256;  // for a label value
constexpr size_t kMaxHelpBytes = 1024;
// The maximum number of series in a family per allowed label value. Families have one untrusted label, or two if one of
// them has few values.
constexpr size_t kSeriesPerValue = 10;

// Prometheus reads a help string up to the end of the line, with '\' and newlines escaped.
std::string HelpText(std::string_view help) {
  std::string text;
  for (const char c : Printable(help, {.max_bytes = kMaxHelpBytes}))
    text += c == '\\' ? std::string("\\\\") : std::string(1, c);
  return text;
}

auto& Build(prometheus::Registry& registry, Counter*, const std::string& name, const std::string& help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}
auto& Build(prometheus::Registry& registry, Gauge*, const std::string& name, const std::string& help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}
auto& Build(prometheus::Registry& registry, Histogram*, const std::string& name, const std::string& help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

// Names that begin with "__" are reserved for Prometheus.
std::string FamilyName(std::string_view name) {
  std::string family = MetricName(name);
  if (family.starts_with("__")) family.insert(0, "metric");
  return family;
}

// Same as FamilyName, but label names also cannot contain ':'.
std::string LabelName(std::string_view name) {
  std::string label = MetricName(name);
  for (char& c : label) {
    if (c == ':') c = '_';
  }
  if (label.starts_with("__")) label.insert(0, "label");
  return label;
}

}  // namespace

std::string MetricName(std::string_view name) {
  std::string mended;
  mended.reserve(name.size() + 1);
  for (const char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':';
    const bool digit = c >= '0' && c <= '9';
    if (mended.empty() && digit) mended += '_';
    mended += letter || digit ? c : '_';
  }
  return mended.empty() ? "_" : mended;
}

Metrics::Metrics(int max_labels) : max_labels_(static_cast<size_t>(std::max(max_labels, 1))) {}
Metrics::~Metrics() = default;

template <typename T>
Metrics::FamilyInfo& Metrics::FamilyOf(Kind kind, std::string name, std::string_view help) {
  while (true) {
    const auto it = families_.find(name);
    if (it == families_.end()) {
      auto& family = Build(registry_, static_cast<T*>(nullptr), name, HelpText(help));
      return families_.emplace(std::move(name), FamilyInfo{kind, &family}).first->second;
    }
    if (it->second.kind == kind) return it->second;
    std::string marked = name + "_conflict";
    if (!families_.contains(marked)) {
      INGOT_LOG(warn, "metric {} already exists with another type; this one is exported as {}", name, marked);
    }
    name = std::move(marked);
  }
}

prometheus::Labels Metrics::Bounded(FamilyInfo& info, const MetricLabels& labels, std::vector<std::string>& over) {
  prometheus::Labels bounded;
  for (const auto& [key, value] : labels) {
    const std::string label = LabelName(key);
    std::string printable = Printable(value, {.max_bytes = kMaxValueBytes});
    std::set<std::string>& known = info.values[label];
    if (printable != kOther && !known.contains(printable)) {
      if (known.size() < max_labels_) {
        known.insert(printable);
      } else {
        printable = kOther;
        over.push_back(label);
      }
    }
    bounded.insert_or_assign(label, std::move(printable));
  }
  return bounded;
}

template <typename T, typename... Args>
T& Metrics::Series(Kind kind, std::string_view name, std::string_view help, const MetricLabels& labels,
                   const Args&... args) {
  std::vector<std::string> over;
  MutexLock lock(mu_);
  FamilyInfo& info = FamilyOf<T>(kind, FamilyName(name), help);
  auto& family = *static_cast<prometheus::Family<T>*>(info.family);
  prometheus::Labels bounded = Bounded(info, labels, over);
  if constexpr (sizeof...(Args) > 0) bounded.erase("le");  // reserved for histograms
  if (!family.Has(bounded) && info.series >= kSeriesPerValue * max_labels_) {
    for (auto& [label, value] : bounded) {
      if (std::exchange(value, kOther) != kOther) over.push_back(label);
    }
  }
  info.series += family.Has(bounded) ? 0 : 1;
  T& series = family.Add(bounded, args...);
  if (over.empty()) return series;
  FamilyInfo& counts = FamilyOf<Counter>(Kind::kCounter, kOtherTotal,
                                         "Lookups of a series with a label value that is counted as \"other\".");
  for (const std::string& label : over) {
    const prometheus::Labels of = {{"metric", family.GetName()}, {"label", label}};
    static_cast<prometheus::Family<Counter>*>(counts.family)->Add(of).Increment();
  }
  return series;
}

Counter& Metrics::GetCounter(std::string_view name, std::string_view help, const MetricLabels& labels) {
  return Series<Counter>(Kind::kCounter, name, help, labels);
}

Gauge& Metrics::GetGauge(std::string_view name, std::string_view help, const MetricLabels& labels) {
  return Series<Gauge>(Kind::kGauge, name, help, labels);
}

Histogram& Metrics::GetHistogram(std::string_view name, std::string_view help, const MetricLabels& labels,
                                 std::vector<double> buckets) {
  if (buckets.empty()) buckets.assign(kDefaultSeconds.begin(), kDefaultSeconds.end());
  return Series<Histogram>(Kind::kHistogram, name, help, labels, buckets);
}

std::string Metrics::RenderText() const {
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, registry_.Collect());
  return std::move(out).str();
}

}  // namespace ingot::base
