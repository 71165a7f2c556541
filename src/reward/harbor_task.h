// Reads the fields of a Harbor task's payload that control how its commands run. dataset/harbor.h writes the payload
// and lists unsupported features. Missing fields have the defaults below.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ingot::reward {

// A shell command that must exit with code 0 before the agent starts.
struct HealthCheck {
  std::string command;
  double interval_s = 5;        // between attempts
  double timeout_s = 30;        // timeout for one attempt
  double start_period_s = 0;    // failures during this initial period do not count
  double start_interval_s = 5;  // between attempts during the start period
  int64_t retries = 3;          // consecutive failures allowed; >= 1
};

struct HarborTask {
  double agent_timeout_s = 0;  // 0 = not set by the task; likewise for the next four fields
  double verifier_timeout_s = 0;
  double cpus = 0;
  int64_t memory_bytes = 0;
  int64_t storage_bytes = 0;
  std::string workdir;                     // absolute path; empty = the image's
  std::map<std::string, std::string> env;  // variables for all commands
  std::map<std::string, std::string> verifier_env, solution_env;
  std::optional<HealthCheck> health_check;
};

// Returns INVALID_ARGUMENT if `payload` is not a JSON object or a field has the wrong type.
absl::StatusOr<HarborTask> ReadHarborTask(std::string_view payload);

}  // namespace ingot::reward
