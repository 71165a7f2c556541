#include "base/metrics.h"

#include <prometheus/text_serializer.h>

#include <array>
#include <sstream>
#include <utility>

#include "base/log.h"

namespace ingot::base {
namespace {

constexpr std::array kDefaultSeconds = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1,  0.2,
                                        0.5,   1.0,   2.0,   5.0,  10.0, 20.0, 50.0, 100.0};

auto& Build(prometheus::Registry& registry, Counter*, const std::string& name, const std::string& help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}
auto& Build(prometheus::Registry& registry, Gauge*, const std::string& name, const std::string& help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}
auto& Build(prometheus::Registry& registry, Histogram*, const std::string& name, const std::string& help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

// Label names have no ':'. Names that begin with "__" are reserved for Prometheus.
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

Metrics::Metrics(size_t max_series) : max_series_(max_series) {}
Metrics::~Metrics() = default;

template <typename T>
Metrics::FamilyInfo& Metrics::FamilyOf(Kind kind, std::string name, std::string_view help) {
  while (true) {
    const auto it = families_.find(name);
    if (it == families_.end()) {
      auto& family = Build(registry_, static_cast<T*>(nullptr), name, std::string(help));
      return families_.emplace(std::move(name), FamilyInfo{kind, &family}).first->second;
    }
    if (it->second.kind == kind) return it->second;
    std::string marked = name + "_conflict";
    if (!families_.contains(marked)) {
      INGOT_LOG(warn, "metric {} is already of another kind; this one is exported as {}", name, marked);
    }
    name = std::move(marked);
  }
}

template <typename T, typename... Args>
T& Metrics::Series(Kind kind, std::string_view name, std::string_view help, const MetricLabels& labels,
                   const Args&... args) {
  prometheus::Labels mended;
  for (const auto& [key, value] : labels) mended.emplace(LabelName(key), value);
  if constexpr (sizeof...(Args) > 0) mended.erase("le");  // a histogram's own
  MutexLock lock(mu_);
  FamilyInfo& info = FamilyOf<T>(kind, MetricName(name), help);
  auto& family = *static_cast<prometheus::Family<T>*>(info.family);
  if (!family.Has(mended)) {
    if (info.series >= max_series_) {
      if (info.series == max_series_) {
        INGOT_LOG(warn, "metric {} has {} label sets; further ones are counted as overflow=\"true\"", family.GetName(),
                  max_series_);
      }
      mended = {{"overflow", "true"}};
    }
    info.series += family.Has(mended) ? 0 : 1;
  }
  return family.Add(mended, args...);
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
