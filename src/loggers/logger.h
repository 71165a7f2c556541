// Loggers send a run's record to the servers that people already use. They follow the files and the pool of a run, so
// they never delay its training.
//
//   RUN/metrics.jsonl ──rows───▶ Mlflow, Trackio
//   pool, journal     ──groups─▶ Otlp (traces; steps and evaluations too)
//
// A logger gets everything in order, and may get the same data again after an error or a crash.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "base/status.h"
#include "proto/tree.pb.h"
#include "view/journal.h"
#include "view/rows.h"

namespace ingot::loggers {

// Sends JSON to a URL and returns the answer's body; `key`: for Authorization: Bearer, empty = none. Blocks. Errors:
// UNAVAILABLE and DEADLINE_EXCEEDED if the server may answer later; other codes if it rejects the request.
using PostJson =
    std::function<absl::StatusOr<std::string>(const std::string& url, const std::string& body, const std::string& key)>;

class Logger {
 public:
  virtual ~Logger() = default;
  virtual std::string name() const = 0;  // one word
  // Text that a later start of the run gets back; empty = none.
  virtual std::string State() const { return ""; }
  virtual absl::Status Rows(std::span<const view::Row> rows) = 0;
  // An ended group with its trees. An evaluation's groups come with its row and are not in the journal: their
  // JournalGroup has only the id.
  virtual bool wants_groups() const { return false; }
  virtual absl::Status Group(const v1::Group&, const view::JournalGroup&) { return absl::OkStatus(); }
  // The run ended, normally or with an error.
  virtual absl::Status End(bool) { return absl::OkStatus(); }
};

}  // namespace ingot::loggers
