// Options for rollout engines from other projects. Bind declares each key with its meaning and bounds.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "engines/api/engine_api.h"

namespace ingot::base {
class Schema;
}

namespace ingot::engines {

// The engine that samples for a rollout role (rollout.engine).
enum class EngineKind : uint8_t { kIngot, kVllm, kSglang };
std::vector<std::string> EngineKindNames();  // in the order of EngineKind

// Returns the API of such a server. REQUIRES: not kIngot.
std::unique_ptr<EngineApi> NewEngineApi(EngineKind kind);

// rollout.external
struct ExternalOptions {
  std::string url = {};  // URL of a running server or load balancer; empty = the role starts `command`
  std::vector<std::string> workers =
      {};  // URLs of the servers behind the load balancer at `url`; empty = it is a server
  std::string api_key_file = {};
  std::vector<std::string> command = {};  // empty = CommandOf returns the engine's own
  std::string exchange = "/dev/shm/ingot";
  SwapMode swap = SwapMode::kKeep;
  bool salt = true;
  bool seeds = false;
  bool verify = true, trial_load = true;
  double verify_bound = 0;
  double max_mismatch = 0.1;
  int32_t start_s = 900;
  int32_t load_s = 600;
  double idle_health_s = 1;

  // Returns INVALID_ARGUMENT, naming the keys, if keys contradict each other. `kind` is the run's engine kind.
  absl::Status Validate(EngineKind kind) const;
};

void Bind(base::Schema& schema, ExternalOptions& options);

// Returns the command that starts a server on the loopback interface with the flags that Ingot needs.
std::vector<std::string> CommandOf(EngineKind kind, const ExternalOptions& options);

}  // namespace ingot::engines
