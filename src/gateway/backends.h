// Maps each model name to an engine and to the weights to which the name refers.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "gateway/options.h"
#include "gateway/parts.h"
#include "proto/tree.pb.h"
#include "rollout/client.h"

namespace ingot::gateway {

struct Backend {
  rollout::Client* engine = nullptr;
  TextModel* text =
      nullptr;  // null = the engine answers; otherwise this model answers within the engine's context limit
  v1::WeightsMode weights = v1::WEIGHTS_FOLLOW;
  int64_t version = -1;                            // version for WEIGHTS_PINNED; -1 = not pinned
  mutable std::atomic<int32_t> context_length{0};  // the engine's context in tokens; 0 = not queried yet
};

// Returns 404 if no model has this name and the options reject unknown names. An empty name selects the first model.
absl::Status CheckModelName(const GatewayOptions& options, const std::string& name);
// Returns the 404 error, which lists the model names.
absl::Status UnknownModel(const GatewayOptions& options, const std::string& name);

// Returns the time, in Unix nanoseconds, when the engine with this status loaded the backend's weights; nullopt = the
// engine does not have them or does not report the time.
std::optional<int64_t> LoadedUnixNanos(const Backend& backend, const v1::EngineStatusResponse& status);

// Immutable except for context lengths, which ContextOf fills in. Thread safe.
class Backends {
 public:
  // REQUIRES: parts.external has an engine for each external model in the options.
  Backends(const GatewayOptions& options, const GatewayParts& parts);

  // Names that are not in the options refer to the latest weights, or to GatewayOptions::stand_in.
  const Backend& Of(const std::string& model) const;

 private:
  Backend follow_;
  std::string stand_in_;
  std::map<std::string, Backend> configured_;  // by model name
};

}  // namespace ingot::gateway
