// The check of a run before it starts, by `ingot config check` and by the start itself: data files, recipes on their
// tasks, the context. It finds faults before a warm start that would otherwise fail every episode after it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/checks/run_warnings.h"
#include "app/models/text_parts.h"
#include "app/run/run_config.h"
#include "base/status.h"

namespace ingot::app {

struct StartCheck {
  DataFacts data;
  int64_t conversations = 0;
  int64_t pairs = 0;
  int64_t recipes = 0;
  std::vector<std::string> warnings;  // of run_warnings.h and agents/preflight.h
};

// `text` and `model_context` are the model's. Errors name the key, and file, line or task at fault. Makes
// agents.work_root.
absl::StatusOr<StartCheck> CheckStart(const RunConfig& config, const TextParts& text, int64_t model_context);

// Whether a pool outside the run's folder can be opened. Changes nothing.
absl::Status CheckRunPool(const RunConfig& config, bool resume);

// One line: everything that passed the check.
std::string DescribeCheck(const StartCheck& check);

}  // namespace ingot::app
