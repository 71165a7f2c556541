// Loggers send a run's record to external tracking servers. They follow the run's files and pool, so they never delay
// training.
//
//   RUN/metrics.jsonl ──rows───▶ Mlflow, Trackio, Wandb (also the samples of evaluations)
//   pool, journal     ──groups─▶ Otlp (traces, including steps and evaluations)
//
// A logger receives everything in order. After an error or a crash, it may receive the same data more than once.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "base/status.h"
#include "proto/tree.pb.h"
#include "view/rows.h"
#include "view/runs/journal.h"

namespace ingot::loggers {

// Sends JSON to a URL and returns the response body. `key` is sent as Authorization: Bearer; empty = none. Blocks.
// Returns UNAVAILABLE or DEADLINE_EXCEEDED if the server may answer later, or other codes if it rejects the request.
using PostJson =
    std::function<absl::StatusOr<std::string>(const std::string& url, const std::string& body, const std::string& key)>;

class Logger {
 public:
  virtual ~Logger() = default;
  virtual std::string name() const = 0;  // one word
  // Returns a string that is passed to the logger when the run restarts; empty = none.
  virtual std::string State() const { return ""; }
  virtual absl::Status Rows(std::span<const view::Row> rows) = 0;
  // Group receives an ended group with its trees. An evaluation's groups are sent with its row and are not in the
  // journal, so their JournalGroup has only the id.
  virtual bool wants_groups() const { return false; }
  virtual absl::Status Group(const v1::Group&, const view::JournalGroup&) { return absl::OkStatus(); }
  // Returns whether Group also receives an evaluation's groups. Evaluated follows, with the evaluation's row.
  virtual bool wants_evaluations() const { return wants_groups(); }
  virtual absl::Status Evaluated(const view::Row&) { return absl::OkStatus(); }
  // Called when the run has ended. The argument is true if it ended normally.
  virtual absl::Status End(bool) { return absl::OkStatus(); }
};

}  // namespace ingot::loggers
