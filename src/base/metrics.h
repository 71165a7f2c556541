// The process's metrics, in Prometheus' model: families of counters, gauges and histograms told apart by labels. Every
// role owns one Metrics and answers GET /metrics with RenderText().
//
// Thread safe. The references returned stay valid as long as the Metrics: look a series up once and keep it, a look-up
// takes a lock and compares names. Nothing here fails: a name or label that Prometheus does not allow is mended
// ('/' -> '_'), and a name that is already taken by another kind of metric, or a family that outgrew max_series, is
// logged once and counted in a series of its own that is not lost but marked.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"

namespace ingot::base {

using MetricLabels = std::map<std::string, std::string>;
using Counter = prometheus::Counter;      // Increment(double)
using Gauge = prometheus::Gauge;          // Set(double), Increment, Decrement
using Histogram = prometheus::Histogram;  // Observe(double)

// `name` with every character outside [a-zA-Z0-9_:] as '_', and '_' in front of a leading digit.
std::string MetricName(std::string_view name);

class Metrics {
 public:
  // `max_series` bounds the label sets of one family, so that a label taken from outside cannot fill the memory; what
  // comes after them goes to one series labelled overflow="true".
  explicit Metrics(size_t max_series = 1000);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Find or create. `help` of the first call stands.
  Counter& GetCounter(std::string_view name, std::string_view help, const MetricLabels& labels = {});
  Gauge& GetGauge(std::string_view name, std::string_view help, const MetricLabels& labels = {});
  // `buckets`: upper bounds, increasing; the first call's stand for the series. Empty: DefaultSeconds().
  Histogram& GetHistogram(std::string_view name, std::string_view help, const MetricLabels& labels = {},
                          std::vector<double> buckets = {});

  // 1 ms to 100 s, three bounds per decade.
  static std::vector<double> DefaultSeconds();

  // Prometheus' text exposition format 0.0.4.
  std::string RenderText() const;

 private:
  enum class Kind { kCounter, kGauge, kHistogram };
  struct FamilyInfo {
    Kind kind;
    void* family;  // prometheus::Family<kind>*, owned by registry_
    size_t series = 0;
  };
  // The family of that name and kind; under a marked name if the name belongs to another kind.
  template <typename T>
  FamilyInfo& FamilyOf(Kind kind, std::string name, std::string_view help) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  template <typename T, typename... Args>
  T& Series(Kind kind, std::string_view name, std::string_view help, const MetricLabels& labels, const Args&... args);

  const size_t max_series_;
  prometheus::Registry registry_;  // synchronises itself
  mutable Mutex mu_;
  std::map<std::string, FamilyInfo> families_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::base
