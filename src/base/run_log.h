// The record of a run, one entry per step (and one for what is measured of a version later, whose step is the version),
// in three forms:
//
//   DIR/metrics.jsonl    one JSON object per line: {"step": 7, "time": 1718000000.25, "reward/mean": 0.4, ...}
//   DIR/tensorboard/     event files with every number of it
//   Metrics              gauges ingot_reward_mean, ... holding the last value written; ingot_step and ingot_version
//                        those of the newest step
//
// A line is whole and on disk (fsync) when Write returns OK, and a later one never follows half a line: a failed write
// is cut off again. NaN and infinities are null in the JSON. Numbers in nested objects reach TensorBoard and the gauges
// as "outer/inner"; strings, arrays and nulls stand in the JSON alone.
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
#include "base/tfevents.h"

namespace ingot::base {

struct RunLogOptions {
  std::string directory;      // the run's folder; made if it is not there
  bool tensorboard = true;    // write event files
  int64_t resume_step = -1;   // the first step that is written (again): lines of it and later ones are cut; < 0: a new
                              // run, whose folder must hold no line yet
  int64_t keep_version = -1;  // on resume, lines with a "version" up to this are kept whatever their step; < 0: none
  absl::Status Validate() const;
};

class RunLog {
 public:
  // Opens the log. On resume, lines with step >= resume_step are cut but for keep_version's, and so are lines that are
  // no JSON object with a "step" (a crash of the machine can leave them), which are counted in the log.
  // FAILED_PRECONDITION: a new run in a folder that already holds lines. `metrics` may be null: no gauges; it must
  // outlive the log, as must `clock`.
  static absl::StatusOr<std::unique_ptr<RunLog>> Open(const RunLogOptions& options, Metrics* metrics,
                                                      const Clock& clock);
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  // `fields` in their order, after "step" and "time" (seconds since the epoch), which are the log's own and override
  // fields of those names. A fault of the event file is logged and does not fail the write.
  absl::Status Write(int64_t step, const json::object& fields);

  const std::string& path() const { return path_; }

 private:
  RunLog(std::string path, int fd, std::unique_ptr<TfEventsWriter> events, Metrics* metrics, const Clock& clock);

  const std::string path_;
  const int fd_;
  Metrics* const metrics_;
  const Clock& clock_;
  Mutex mu_;
  int64_t newest_ ABSL_GUARDED_BY(mu_) = -1;  // step written
  std::unique_ptr<TfEventsWriter> events_ ABSL_PT_GUARDED_BY(mu_);
};

}  // namespace ingot::base
