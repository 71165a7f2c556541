// The engines that sample for model names, and the weights that each name stands for.
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
      nullptr;  // answers in place of `engine`, whose context limits its calls too; null = the engine answers
  v1::WeightsMode weights = v1::WEIGHTS_FOLLOW;
  int64_t version = -1;                            // of WEIGHTS_PINNED; -1 = none is pinned
  mutable std::atomic<int32_t> context_length{0};  // tokens, of the engine; 0 = not asked yet
};

// 404: no model has this name, and the options reject such names. An empty name is the first model's.
absl::Status CheckModelName(const GatewayOptions& options, const std::string& name);
// The 404. It lists the names of the models.
absl::Status UnknownModel(const GatewayOptions& options, const std::string& name);

// Unix nanoseconds at which the engine with this status loaded the backend's weights; nullopt = the engine does not
// hold them, or does not report the time.
std::optional<int64_t> LoadedUnixNanos(const Backend& backend, const v1::EngineStatusResponse& status);

// Constant except for context lengths, which ContextOf fills in. Thread safe.
class Backends {
 public:
  // REQUIRES: parts.external has an engine for each external model of the options.
  Backends(const GatewayOptions& options, const GatewayParts& parts);

  // Names that the options do not list follow training, or use the stand-in.
  const Backend& Of(const std::string& model) const;

 private:
  Backend follow_;
  std::string stand_in_;
  std::map<std::string, Backend> configured_;  // by model name
};

}  // namespace ingot::gateway
