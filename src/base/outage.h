// The log of a time in which each try fails, for whoever tries again and again: its cause when it begins, a reminder each
// minute, and its length at its end. Tries in between log nothing. Meanwhile it is a wait of the process (base/waits.h). Not
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
  // Either of the two.
  void Note(const absl::Status& tried) { tried.ok() ? Over() : Failed(tried); }

 private:
  int64_t Seconds() const;

  const std::string what_;
  const Clock& clock_;
  std::optional<std::chrono::nanoseconds> since_;
  std::optional<Wait> wait_;  // meanwhile
  std::chrono::nanoseconds reported_{0};
};

}  // namespace ingot::base
