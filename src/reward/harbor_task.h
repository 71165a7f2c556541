// The part of a Harbor task's payload that says how its commands run (dataset/harbor.h writes it and lists what is not
// supported). Fields that the payload lacks have the values below.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ingot::reward {

// A shell command that must exit with 0 before the agent starts.
struct HealthCheck {
  std::string command;
  double interval_s = 5;        // between two tries
  double timeout_s = 30;        // of one try
  double start_period_s = 0;    // tries that fail in this time do not count
  double start_interval_s = 5;  // between two tries in this time
  int64_t retries = 3;          // failures in a row, >= 1
};

struct HarborTask {
  double agent_timeout_s = 0;  // 0 = not set by the task, here and below
  double verifier_timeout_s = 0;
  double cpus = 0;
  int64_t memory_bytes = 0;
  int64_t storage_bytes = 0;
  std::string workdir;                     // absolute; empty = the image's
  std::map<std::string, std::string> env;  // of every command
  std::map<std::string, std::string> verifier_env, solution_env;
  std::optional<HealthCheck> health_check;
};

// INVALID_ARGUMENT: `payload` is not a JSON object, or a field has the wrong kind.
absl::StatusOr<HarborTask> ReadHarborTask(std::string_view payload);

}  // namespace ingot::reward
