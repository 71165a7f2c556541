// Tests what a rollout server supports, and whether its log-probs can be used for training (`ingot engine check`).
// Compares it with Ingot's model on the same weights. Blocks.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "engines/api/engine_api.h"
#include "engines/server/server_control.h"
#include "engines/verification/weight_reference.h"
#include "text/tokenizer/tokenizer.h"
#include "weights/snapshot.h"

namespace ingot::engines {

enum class Verdict : uint8_t { kRight, kWrong, kNotOffered };

// The answer to one question about a server.
struct Finding {
  std::string question;
  Verdict verdict = Verdict::kRight;
  std::string text;       // what was measured
  bool required = false;  // true = needed to sample for a run
};

struct EngineCheckParts {
  const EngineApi& api;
  ServerControl& control;
  ServedModel model;
  WeightReference& reference;
  std::shared_ptr<const weights::Snapshot> snapshot;  // weights that the server has loaded
  // Writes a version as a model folder that the server can open. Null = the server's weights are not changed.
  std::function<absl::StatusOr<std::string>(const std::shared_ptr<const weights::Snapshot>& snapshot)> write;
  std::chrono::milliseconds timeout{60000};                    // per request
  std::shared_ptr<const text::Tokenizer> tokenizer = nullptr;  // null = answers are not checked against grammars
  bool may_crash = false;                                      // true = also send requests that have crashed servers
};

// Returns one finding per question. Returns an error if the server does not respond at all. With `write`, reloads the
// snapshot into the server at the end.
absl::StatusOr<std::vector<Finding>> CheckEngine(const EngineCheckParts& parts);

// Returns true if all required findings are present and OK.
bool CanSample(const std::vector<Finding>& findings);

}  // namespace ingot::engines
