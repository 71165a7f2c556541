// The log of an outage, for a caller that keeps retrying: the cause when it begins, a reminder each minute, and its
// length at its end. Other tries log nothing. The outage also counts as a wait of the process (base/waits.h). Not
// thread safe.
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
  // `what`: the subject of the lines, such as "the watch of PREFIX". REQUIRES: `clock` outlives it.
  Outage(std::string what, const Clock& clock) : what_(std::move(what)), clock_(clock) {}

  // A try failed.
  void Failed(const absl::Status& why);
  // An answer came.
  void Over();
  // Calls Over or Failed, by the status.
  void Note(const absl::Status& tried) { tried.ok() ? Over() : Failed(tried); }

 private:
  int64_t Seconds() const;

  const std::string what_;
  const Clock& clock_;
  std::optional<std::chrono::nanoseconds> since_;
  std::optional<Wait> wait_;  // during the outage
  std::chrono::nanoseconds reported_{0};
};

}  // namespace ingot::base
