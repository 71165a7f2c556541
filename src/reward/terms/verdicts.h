// Stores judges' verdicts, keyed by the server's settings and the case, so that each question is asked only once. With
// a file, verdicts survive restarts, and a stage that takes over a group only requests missing verdicts.
//
//   {"key": "9f2c...", "unsure": false, "score": 1, "reasoning": "..."}      one line each
//
// A line that was truncated by a crash is ignored. Only one process may use the file at a time.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/checksum.h"
#include "base/mutex.h"
#include "base/status.h"
#include "reward/terms/verdict.h"
#include "sandbox/spawn.h"

namespace ingot::reward {

// Thread safe.
class Verdicts {
 public:
  static constexpr size_t kMax = 65536;  // maximum number of verdicts; when reached, memory and file are cleared

  // Stores verdicts only in memory.
  Verdicts() = default;
  // Opens or creates the file and reads it. Returns UNAVAILABLE, naming the file and the reason, if that fails.
  static absl::StatusOr<std::shared_ptr<Verdicts>> Open(const std::string& path);

  std::optional<JudgeVerdict> Find(const base::Key128& key) const;
  // Stores a verdict durably. Returns UNAVAILABLE if the verdict is only in memory.
  absl::Status Add(const base::Key128& key, const JudgeVerdict& verdict);

 private:
  absl::Status Append(const std::string& text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  std::string path_;  // empty = memory only
  mutable base::Mutex mu_;
  sandbox::Fd file_ ABSL_GUARDED_BY(mu_);
  std::map<base::Key128, JudgeVerdict> verdicts_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::reward
