// The judges' verdicts, by the content of server and case, so that an equal question is asked once. With a file they
// outlive their process: a stage that takes over a group asks only what is missing.
//
//   {"key": "9f2c...", "unsure": false, "score": 1, "reasoning": "..."}      a line each
//
// A line that a crash cut off is ignored. One process at a time uses the file.
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
  static constexpr size_t kMost = 65536;  // verdicts; a full memory is emptied, and so is its file

  // Only in memory.
  Verdicts() = default;
  // Opens the file, or makes it, and reads it. UNAVAILABLE names the file and the reason.
  static absl::StatusOr<std::shared_ptr<Verdicts>> Open(const std::string& path);

  std::optional<JudgeVerdict> Find(const base::Key128& key) const;
  // The verdict is on disk when it returns. UNAVAILABLE: it is only in memory.
  absl::Status Add(const base::Key128& key, const JudgeVerdict& verdict);

 private:
  absl::Status Append(const std::string& text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  std::string path_;  // empty = only in memory
  mutable base::Mutex mu_;
  sandbox::Fd file_ ABSL_GUARDED_BY(mu_);
  std::map<base::Key128, JudgeVerdict> verdicts_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::reward
