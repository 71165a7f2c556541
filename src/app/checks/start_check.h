// Checks a run before it starts: the data files, the recipes with their tasks, and the context length. Used by `ingot
// config check` and when a run starts. Finds errors that would otherwise fail every episode after a long warm start.
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
  std::vector<std::string> warnings;  // from run_warnings.h and agents/preflight.h
};

// `text` and `model_context` describe the model. Errors name the key and, where known, the file, line, or task. Creates
// agents.work_root.
absl::StatusOr<StartCheck> CheckStart(const RunConfig& config, const TextParts& text, int64_t model_context);

// If the pool is outside the run's folder, checks whether it can be opened. Changes nothing.
absl::Status CheckRunPool(const RunConfig& config, bool resume);

// Returns one line that lists everything the check passed.
std::string DescribeCheck(const StartCheck& check);

}  // namespace ingot::app
