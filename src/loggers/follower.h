// Follows a run's record, journal, and pool, and sends new rows and groups to each logger independently.
//
// One low-priority thread checks for new data every few seconds. If a logger's server does not answer, the follower
// retries, logs a warning once per minute, and later sends the missed rows. FOLDER/NAME.json stores each logger's
// position in the run, and a restarted run continues from there.
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

// A logger's position in a run.
struct Place {
  double row_time = 0;         // time of the last row sent; rows are ordered by time
  int64_t next_group = 0;      // all ended groups with lower ids were sent
  std::vector<int64_t> ahead;  // groups >= next_group that were sent; groups can end out of order
  std::string state;           // Logger::State
};

// Returns INVALID_ARGUMENT if `text` is not a position.
absl::StatusOr<Place> ReadPlace(const std::string& text);
std::string PrintPlace(const Place& place);

struct FollowerOptions {
  std::string record = {};  // RUN/metrics.jsonl
  std::string folder = {};  // RUN/loggers; created if missing
  std::chrono::milliseconds period{3000};
  std::chrono::seconds warn_every{60};
  std::chrono::seconds last_look{20};  // End's time limit, for all loggers together
};

class Follower {
 public:
  // `pool` must outlive the follower. If it is null, loggers do not receive groups.
  Follower(FollowerOptions options, std::vector<std::unique_ptr<Logger>> loggers, datapool::Client* pool);
  ~Follower();

  void Start();
  // Sends the remaining data and ends the loggers' runs. Gives up after last_look. `ok` is true if the run ended
  // normally. Idempotent.
  void End(bool ok);
  // Checks once for new data on the caller's thread. For tests.
  void Poll();

 private:
  struct FollowedLogger {
    std::unique_ptr<Logger> logger;
    Place place;
    std::chrono::steady_clock::time_point warned{};
  };
  absl::Status Send(FollowedLogger& followed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Sends the evaluations that the rows report.
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
