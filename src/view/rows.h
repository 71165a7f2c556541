// Holds a run's record (RUN/metrics.jsonl) in memory, by column. Refresh reads the bytes added since the last Refresh.
//
// An incomplete line is read once it is complete. Broken lines are skipped and counted. A resumed run may truncate the
// record. In that case, it is read from the beginning. A missing record is treated as empty.
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

// A metric over the steps, with at most the requested number of points. Each point represents several adjacent rows.
struct Curve {
  std::vector<double> steps;  // step of each point's last row
  std::vector<double> mean, low, high;
};

// A row and its metrics. It is either a step or an evaluation.
struct Row {
  int64_t step = 0;
  double time = 0;  // seconds since the Unix epoch
  std::map<std::string, double> values;
  // Returns the value, or `otherwise` if the row lacks the metric.
  double Get(const std::string& name, double otherwise = 0) const;
  bool Has(const std::string& name) const { return values.contains(name); }
};

// Time and tokens at a run's steps, starting with the first step.
struct Progress {
  std::vector<double> steps, seconds, tokens;  // tokens = trained tokens, up to and including the step
};

class Rows {
 public:
  explicit Rows(std::string path) : path_(std::move(path)) {}

  // Returns UNAVAILABLE if the file exists but cannot be read.
  absl::Status Refresh();

  int64_t size() const;
  int64_t broken() const;  // lines that are not JSON objects with a step
  std::vector<std::string> Names() const;
  // Returns an empty curve if no row has the metric. REQUIRES: points >= 2.
  Curve CurveOf(const std::string& name, size_t points) const;
  // Returns at most `points` steps, always including the last one. REQUIRES: points >= 2.
  Progress ProgressOf(size_t points) const;
  // Returns the last `count` rows that have the `name` metric, in record order.
  std::vector<Row> Last(const std::string& name, size_t count) const;

  // Returns the first `count` rows after `time`, in record order, regardless of their metrics.
  std::vector<Row> After(double time, size_t count) const;

  static constexpr size_t kMaxNames = 4096;  // additional metrics are ignored

 private:
  void Add(std::string_view line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Row RowAt(size_t index) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Clear() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string path_;
  mutable base::Mutex mu_;
  int64_t offset_ ABSL_GUARDED_BY(mu_) = 0;  // bytes read so far, up to the last complete line
  std::string tail_ ABSL_GUARDED_BY(mu_);    // the last of these bytes; if the file differs here, it was truncated
  int64_t broken_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<int64_t> steps_ ABSL_GUARDED_BY(mu_);
  std::vector<double> times_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::vector<double>> columns_ ABSL_GUARDED_BY(mu_);  // NaN = absent; may be shorter than steps_
};

}  // namespace ingot::view
