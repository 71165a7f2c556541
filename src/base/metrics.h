// Holds the process's Prometheus metrics: families of counters, gauges, and histograms, with one series per label set.
// Each role owns one Metrics object and answers GET /metrics with RenderText().
//
// Thread safe. Returned references are valid for the lifetime of the Metrics object. Look up a series once and keep the
// reference because a lookup takes a lock and compares names.
//
// Methods never fail. Characters that are invalid in Prometheus names are replaced by '_'. A name already used by
// another metric type gets the suffix "_conflict", which is logged once. Label values and help strings are made
// printable (base/printable.h), so untrusted text cannot break a scrape. Only label values may be untrusted. Metric and
// label names must come from the code.
//
// In each family, a label has at most max_labels values. Additional values are replaced by "other". The counter
// ingot_metrics_labels_other_total counts these lookups by metric and label.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"

namespace ingot::base {

using MetricLabels = std::map<std::string, std::string>;
using Counter = prometheus::Counter;      // Increment(double)
using Gauge = prometheus::Gauge;          // Set(double), Increment, Decrement
using Histogram = prometheus::Histogram;  // Observe(double)

// Returns `name` with every character outside [a-zA-Z0-9_:] replaced by '_', and with '_' prepended if it starts with a
// digit.
std::string MetricName(std::string_view name);

class Metrics {
 public:
  static constexpr int kDefaultMaxLabels = 200;
  // `max_labels` > 0 bounds the memory that untrusted labels can use.
  explicit Metrics(int max_labels = kDefaultMaxLabels);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Each Get function finds or creates a series. `help` is used only by the first call for a family.
  Counter& GetCounter(std::string_view name, std::string_view help, const MetricLabels& labels = {});
  Gauge& GetGauge(std::string_view name, std::string_view help, const MetricLabels& labels = {});
  // `buckets` are increasing upper bounds, used only by the first call for a series. Empty = 1 ms to 100 s with three
  // bounds per decade.
  Histogram& GetHistogram(std::string_view name, std::string_view help, const MetricLabels& labels = {},
                          std::vector<double> buckets = {});

  // Returns all metrics in the Prometheus text exposition format 0.0.4.
  std::string RenderText() const;

 private:
  enum class Kind { kCounter, kGauge, kHistogram };
  struct FamilyInfo {
    Kind kind;
    void* family;                                              // prometheus::Family<kind>*, owned by registry_
    std::map<std::string, std::set<std::string>> values = {};  // each label's values, except "other"
    size_t series = 0;
  };
  // Returns the family with this name and kind. Adds a suffix if the name is used by another kind.
  template <typename T>
  FamilyInfo& FamilyOf(Kind kind, std::string name, std::string_view help) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  template <typename T, typename... Args>
  T& Series(Kind kind, std::string_view name, std::string_view help, const MetricLabels& labels, const Args&... args);

  // Returns a series' labels after applying the limits. Appends labels whose value became "other" to `over`.
  prometheus::Labels Bounded(FamilyInfo& info, const MetricLabels& labels, std::vector<std::string>& over)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const size_t max_labels_;
  prometheus::Registry registry_;  // has its own lock
  mutable Mutex mu_;
  std::map<std::string, FamilyInfo> families_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::base
