// Logs outages for a caller that keeps retrying: the cause when an outage begins, a reminder every minute, and the
// duration when it ends. Other attempts are not logged. The outage also registers a Wait (base/waits.h). Not thread
// safe.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "base/waits.h"

namespace ingot::base {

class Outage {
 public:
  // `what` is the subject of the log lines, such as "the watch of PREFIX". `clock` must outlive this object.
  Outage(std::string what, const Clock& clock) : what_(std::move(what)), clock_(clock) {}

  // Called when an attempt failed.
  void Failed(const absl::Status& why);
  // Called when an attempt succeeded.
  void Over();
  // Calls Over or Failed, depending on the status.
  void Note(const absl::Status& tried) { tried.ok() ? Over() : Failed(tried); }

 private:
  int64_t Seconds() const;

  const std::string what_;
  const Clock& clock_;
  std::optional<std::chrono::nanoseconds> since_;
  std::optional<Wait> wait_;  // set during the outage
  std::chrono::nanoseconds reported_{0};
};

}  // namespace ingot::base
