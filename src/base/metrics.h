// The process's metrics, in Prometheus' model: families of counters, gauges and histograms, with one series per set of
// labels. Every role owns one Metrics and answers GET /metrics with RenderText().
//
// Thread safe. A returned reference is valid as long as the Metrics. Look a series up once and keep the reference: a
// look-up takes a lock and compares names.
//
// No method fails. A character that Prometheus forbids in a name becomes '_'. A name that another kind of metric
// already has gets the suffix "_conflict", and the log reports it once. Values of labels and help texts are made
// printable (base/printable.h), so no text from outside can break a scrape. Names of metrics and labels come from the
// code: only a label's value may come from outside.
//
// A label has at most max_labels values in a family. Series with more values share the value "other", and the counter
// ingot_metrics_labels_other_total counts the look-ups that went there, by metric and label.
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

// `name` with '_' for every character outside [a-zA-Z0-9_:], and with '_' in front of a leading digit.
std::string MetricName(std::string_view name);

class Metrics {
 public:
  static constexpr int kDefaultMaxLabels = 200;
  // `max_labels` > 0 bounds the memory that labels from outside can take.
  explicit Metrics(int max_labels = kDefaultMaxLabels);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Each Get finds or creates a series. `help` is used at the first call for a family.
  Counter& GetCounter(std::string_view name, std::string_view help, const MetricLabels& labels = {});
  Gauge& GetGauge(std::string_view name, std::string_view help, const MetricLabels& labels = {});
  // `buckets`: increasing upper bounds, used at the first call for a series. Empty =
  // 1 ms to 100 s, three bounds per decade.
  Histogram& GetHistogram(std::string_view name, std::string_view help, const MetricLabels& labels = {},
                          std::vector<double> buckets = {});

  // Prometheus' text exposition format 0.0.4.
  std::string RenderText() const;

 private:
  enum class Kind { kCounter, kGauge, kHistogram };
  struct FamilyInfo {
    Kind kind;
    void* family;                                              // prometheus::Family<kind>*, owned by registry_
    std::map<std::string, std::set<std::string>> values = {};  // of each label, without "other"
    size_t series = 0;
  };
  // The family of that name and kind. Its name gets a suffix if another kind has the name.
  template <typename T>
  FamilyInfo& FamilyOf(Kind kind, std::string name, std::string_view help) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  template <typename T, typename... Args>
  T& Series(Kind kind, std::string_view name, std::string_view help, const MetricLabels& labels, const Args&... args);

  // The labels of a series within the bounds. `over`: the labels whose value became "other".
  prometheus::Labels Bounded(FamilyInfo& info, const MetricLabels& labels, std::vector<std::string>& over)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const size_t max_labels_;
  prometheus::Registry registry_;  // synchronises itself
  mutable Mutex mu_;
  std::map<std::string, FamilyInfo> families_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::base
