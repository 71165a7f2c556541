// The record of a run (RUN/metrics.jsonl) in memory, by column. Refresh reads the bytes added since the last Refresh.
//
// A half-written line is read once it is complete. A broken line is skipped and counted. A record that was cut, as a
// resumed run cuts it, is read again from its start. A missing record counts as empty.
//
// Thread safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"

namespace ingot::view {

// One metric over the steps, with at most the requested number of points: each stands for a run of neighboring rows.
struct Curve {
  std::vector<double> steps;  // of a point's last row
  std::vector<double> mean, low, high;
};

// A row: a step or an evaluation, with the metrics that it has.
struct Row {
  int64_t step = 0;
  double time = 0;  // seconds since the Unix epoch
  std::map<std::string, double> values;
  // The value, or `otherwise` if the row lacks the metric.
  double Get(const std::string& name, double otherwise = 0) const;
  bool Has(const std::string& name) const { return values.contains(name); }
};

// Where the steps of a run are in time and in tokens, from its first step on.
struct Progress {
  std::vector<double> steps, seconds, tokens;  // tokens: trained ones, up to and with the step
};

class Rows {
 public:
  explicit Rows(std::string path) : path_(std::move(path)) {}

  // UNAVAILABLE: the file exists but cannot be read.
  absl::Status Refresh();

  int64_t size() const;
  int64_t broken() const;  // lines that are not JSON objects with a step
  std::vector<std::string> Names() const;
  // A metric that no row has is an empty curve. REQUIRES: points >= 2.
  Curve CurveOf(const std::string& name, size_t points) const;
  // Of at most `points` steps; the last step is one of them. REQUIRES: points >= 2.
  Progress ProgressOf(size_t points) const;
  // The last `count` rows that have the metric `name`, in the order of the record.
  std::vector<Row> Last(const std::string& name, size_t count) const;

  // The first `count` rows after `time`, in the order of the record, whatever metrics they have.
  std::vector<Row> After(double time, size_t count) const;

  static constexpr size_t kMostNames = 4096;  // more metrics are left out

 private:
  void Add(std::string_view line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Row RowAt(size_t index) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Clear() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string path_;
  mutable base::Mutex mu_;
  int64_t offset_ ABSL_GUARDED_BY(mu_) = 0;  // bytes of whole lines that were read
  std::string tail_ ABSL_GUARDED_BY(mu_);    // the last of these bytes; if the file's differ, the record was cut
  int64_t broken_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<int64_t> steps_ ABSL_GUARDED_BY(mu_);
  std::vector<double> times_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::vector<double>> columns_ ABSL_GUARDED_BY(mu_);  // NaN = absent; may be shorter than steps_
};

}  // namespace ingot::view
