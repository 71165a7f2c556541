// The record of a run's metrics, one line per step, in three forms. An evaluation of a version that ends later has its
// own line, whose step is the version.
//
//   DIR/metrics.jsonl    one JSON object per line: {"step": 7, "time": 1718000000.25, "reward/mean": 0.4, ...}
//   DIR/tensorboard/     event files with every number of the line, under a bounded number of names (base/tag_bound.h)
//   Metrics              gauges ingot_reward_mean, ... with the last written value; ingot_step and ingot_version
//                        belong to the newest step
//
// A line is whole and durable when Write returns OK. After a failed write the log drops the partial line, so no line
// follows half a line. NaN and infinities are null in the JSON. Numbers in nested objects reach TensorBoard and the
// gauges as "outer/inner"; strings, arrays and nulls are only in the JSON. Names are made printable (base/printable.h).
// In a gauge's name, text from agents and tasks becomes a label: signal/NAME is ingot_signal{name="NAME"}, and
// METRIC@domain:D is ingot_METRIC{domain="D"}.
//
// Thread safe. Write blocks for one fsync.
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
  std::string directory;     // the run's folder; made if absent
  bool tensorboard = true;   // write event files
  int64_t resume_step = -1;  // the first step of the resumed run: lines from this step on are cut; < 0 = a new run,
                             // whose folder must have no lines
  int max_labels = Metrics::kDefaultMaxLabels;  // values of a label (metrics.h) with their own tag in TensorBoard; >= 1
  int64_t keep_version = -1;  // on resume, keeps lines with a "version" up to this, whatever their step; < 0 = none
  absl::Status Validate() const;
};

class RunLog {
 public:
  // Opens the log. On resume it cuts lines with step >= resume_step, except the lines of keep_version. It also cuts a
  // half-written last line, which a killed run usually leaves. It warns about other broken lines, which a crash of the
  // machine can leave, and cuts them. It warns if the lines of the steps before resume_step are gone.
  // FAILED_PRECONDITION: a new run in a folder that has lines. `metrics`: null = no gauges. REQUIRES: `metrics` and
  // `clock` outlive the log.
  static absl::StatusOr<std::unique_ptr<RunLog>> Open(const RunLogOptions& options, Metrics* metrics,
                                                      const Clock& clock);
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  // Writes "step", "time" (seconds since the epoch) and then `fields` in their order; a field named "step" or "time" is
  // left out. An error of the event file is logged and does not fail the write.
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
  int64_t newest_ ABSL_GUARDED_BY(mu_) = -1;  // the largest written step; -1 = none
  std::unique_ptr<TfEventsWriter> events_ ABSL_PT_GUARDED_BY(mu_);
  TagBound tags_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::base
