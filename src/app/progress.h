// The progress of a command on stderr: a line that appears once the command has taken two seconds, on a terminal alone. The
// line that it stands on is empty again when the command goes on to print.
//
//   Progress   a bar of a job that counts its steps
//   Underway   the seconds of a job that does not: the file system or torch has it
//   Between    the same between the lines that a job prints
//
// None is thread safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <ostream>
#include <string>
#include <thread>

#include "base/clock.h"

namespace ingot::app {

class Progress {
 public:
  // `out` is borrowed; `clock` outlives it. `terminal`: -1 = whether `out` is one.
  explicit Progress(std::string name, std::FILE* out = stderr, const base::Clock& clock = base::Clock::Real(),
                    int terminal = -1);
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `done` of `total` steps of a job; total 0 = it is not known. Cheap: draws ten times a second at most.
  void Show(const std::string& what, int64_t done = 0, int64_t total = 0);
  void Clear();

  static constexpr std::chrono::seconds kAfter{2};
  static constexpr std::chrono::milliseconds kEvery{100};

 private:
  const std::string name_;
  std::FILE* const out_;
  const base::Clock& clock_;
  const bool terminal_;
  const std::chrono::nanoseconds start_;
  std::chrono::nanoseconds drawn_{0};
  bool stands_ = false;
};

// From its making to its end, `what` is done: "ingot: loading /models/m  12 s". A thread of its own draws the line, so the
// job may block.
class Underway {
 public:
  // `out` is borrowed. `terminal` as Progress; `after`, `every`: of the line and of its changes.
  explicit Underway(std::string what, std::FILE* out = stderr, int terminal = -1,
                    std::chrono::milliseconds after = Progress::kAfter,
                    std::chrono::milliseconds every = std::chrono::seconds(1));
  ~Underway();
  Underway(const Underway&) = delete;
  Underway& operator=(const Underway&) = delete;

 private:
  std::jthread thread_;  // of a terminal; ends with this
};

// A job that prints its lines through this: "bench tree  12 s" stands while none comes.
class Between {
 public:
  explicit Between(std::string what) : what_(std::move(what)) { waits_.emplace(what_); }
  void Print(std::ostream& out, const std::string& line) {
    waits_.reset();
    out << line << std::endl;
    waits_.emplace(what_);
  }

 private:
  const std::string what_;
  std::optional<Underway> waits_;
};

// Whether a line on stderr stands alone on its terminal: stdout goes elsewhere.
bool OutputGoesElsewhere();

// "report ━━━━━╌╌╌╌╌ 12/24 reading groups", without escape codes. Pure.
std::string FormatProgress(const std::string& name, const std::string& what, int64_t done, int64_t total);

}  // namespace ingot::app
