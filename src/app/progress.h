// The progress of a command on stderr: a bar that appears once the command has taken two seconds, on a terminal alone. The
// line that it stands on is empty again when the command goes on to print.
// Not thread safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

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

// "report ━━━━━╌╌╌╌╌ 12/24 reading groups", without escape codes. Pure.
std::string FormatProgress(const std::string& name, const std::string& what, int64_t done, int64_t total);

}  // namespace ingot::app
