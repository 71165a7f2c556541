// Records a run's metrics in three formats, with one line per step. An evaluation that ends after its version's step
// gets its own line, whose step is the version.
//
//   DIR/metrics.jsonl    one JSON object per line: {"step": 7, "time": 1718000000.25, "reward/mean": 0.4, ...}
//   DIR/tensorboard/     event files with all of the line's numbers, under a limited number of names (base/tag_bound.h)
//   Metrics              gauges such as ingot_reward_mean with the last value written; ingot_step and ingot_version
//                        describe the newest step
//
// A line is complete and durable when Write returns OK. After a failed write, the log removes the partial line so that
// the next line is not appended to it. NaN and infinities become null in the JSON. Numbers in nested objects are named
// "outer/inner" in TensorBoard and gauges. Strings, arrays, and nulls appear only in the JSON. Names are made printable
// (base/printable.h). In a gauge, text from agents and tasks becomes a label: signal/NAME becomes
// ingot_signal{name="NAME"}, and METRIC@domain:D becomes ingot_METRIC{domain="D"}.
//
// Thread safe. Write blocks on a single fsync.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/json.h"
#include "base/metrics.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/tag_bound.h"
#include "base/tfevents.h"

namespace ingot::base {

struct RunLogOptions {
  std::string directory;    // the run folder; created if missing
  bool tensorboard = true;  // write event files
  // The resumed run's first step. Lines for this and later steps are removed. < 0 = a new run, whose folder must not
  // contain any lines.
  int64_t resume_step = -1;
  // The number of values per label (metrics.h) that get their own TensorBoard tag; >= 1.
  int max_labels = Metrics::kDefaultMaxLabels;
  // On resume, lines with a "version" up to this one are kept regardless of their step; < 0 = no such lines.
  int64_t keep_version = -1;
  absl::Status Validate() const;
};

class RunLog {
 public:
  // Opens the log. On resume, removes lines with step >= resume_step, except those kept by keep_version. Also removes
  // an incomplete last line, which a killed run usually leaves. Also removes other broken lines, which a machine crash
  // can leave, and logs a warning. Logs a warning if lines for steps before resume_step are missing. Returns
  // FAILED_PRECONDITION for a new run in a folder that has lines. If `metrics` is null, there are no gauges. `metrics`
  // and `clock` must outlive the log.
  static absl::StatusOr<std::unique_ptr<RunLog>> Open(const RunLogOptions& options, Metrics* metrics,
                                                      const Clock& clock);
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  // Writes "step", "time" (seconds since the epoch), and then `fields` in order. Fields named "step" or "time" are
  // omitted. Failure to write the event file is only logged.
  absl::Status Write(int64_t step, const json::object& fields);

  const std::string& path() const { return path_; }

 private:
  RunLog(std::string path, int fd, std::unique_ptr<TfEventsWriter> events, TagBound tags, Metrics* metrics,
         const Clock& clock);

  const std::string path_;
  const int fd_;
  Metrics* const metrics_;
  const Clock& clock_;
  Mutex mu_;
  int64_t newest_ ABSL_GUARDED_BY(mu_) = -1;  // largest step written; -1 = none
  std::unique_ptr<TfEventsWriter> events_ ABSL_PT_GUARDED_BY(mu_);
  TagBound tags_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::base
