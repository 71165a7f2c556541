// Follows the record, journal and pool of a run, and sends new rows and groups to its loggers, each at its own pace.
//
// One low-priority thread looks every few seconds. If a logger's server does not answer, the follower retries, with a
// warning a minute, and then sends the missed rows. FOLDER/NAME.json stores each logger's place in the run, so a
// restarted run continues there.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/executor.h"
#include "base/mutex.h"
#include "datapool/client.h"
#include "loggers/logger.h"

namespace ingot::loggers {

// A logger's place in a run.
struct Place {
  double row_time = 0;         // of the last sent row; rows are ordered by time
  int64_t next_group = 0;      // all ended groups below it were sent
  std::vector<int64_t> ahead;  // groups from next_group on that were sent, since groups end out of order
  std::string state;           // Logger::State
};

// INVALID_ARGUMENT: the text is not a place.
absl::StatusOr<Place> ReadPlace(const std::string& text);
std::string PrintPlace(const Place& place);

struct FollowerOptions {
  std::string record = {};  // RUN/metrics.jsonl
  std::string folder = {};  // RUN/loggers; made if missing
  std::chrono::milliseconds period{3000};
  std::chrono::seconds warn_every{60};
  std::chrono::seconds last_look{20};  // of End, for all loggers together
};

class Follower {
 public:
  // `pool` outlives the follower; null = loggers do not get groups.
  Follower(FollowerOptions options, std::vector<std::unique_ptr<Logger>> loggers, datapool::Client* pool);
  ~Follower();

  void Start();
  // Sends the rest and ends the loggers' runs; gives up after last_look. `ok`: the run ended normally. Idempotent.
  void End(bool ok);
  // One look, on the caller's thread: for tests.
  void Look();

 private:
  struct FollowedLogger {
    std::unique_ptr<Logger> logger;
    Place place;
    std::chrono::steady_clock::time_point warned{};
  };
  absl::Status Send(FollowedLogger& followed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The evaluations that rows report.
  absl::Status SendEvaluations(Logger& logger, std::span<const view::Row> rows) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status SendGroups(FollowedLogger& followed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void KeepPosition(const FollowedLogger& followed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const FollowerOptions options_;
  datapool::Client* const pool_;
  base::Mutex mu_;
  view::Rows rows_ ABSL_GUARDED_BY(mu_);
  view::Journal journal_ ABSL_GUARDED_BY(mu_);
  std::vector<FollowedLogger> followed_ ABSL_GUARDED_BY(mu_);
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  base::Executor thread_{{.name = "loggers"}};
  base::Timer timer_;
};

}  // namespace ingot::loggers
