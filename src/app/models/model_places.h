// The engines of the models in gateway.models, by name, for calls outside any episode: teachers and judges.
// Thread safe.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "base/status.h"
#include "gateway/options.h"
#include "rollout/client.h"

namespace ingot::app {

class ModelPlaces {
 public:
  // `own`: the run's engines, which retain the pinned versions. `external`: the servers of external models, by name.
  ModelPlaces(const gateway::GatewayOptions& gateway, std::shared_ptr<rollout::Client> own,
              std::map<std::string, std::shared_ptr<rollout::Client>> external)
      : gateway_(gateway), own_(std::move(own)), external_(std::move(external)) {}

  struct Place {
    std::shared_ptr<rollout::Client> client;
    int64_t version = 0;    // to pin
    std::string tokenizer;  // fingerprint; empty = the engine does not say
  };
  // NOT_FOUND: no such model, or no engine for it. UNAVAILABLE: its engine does not answer now. An external server has
  // one version, which it names; it is asked once.
  absl::StatusOr<Place> PlaceOf(const std::string& name) const;

  // The answer to `request`, all its chunks as one. Blocks; UNAVAILABLE after `seconds`, and where the engine is full.
  static absl::StatusOr<v1::GenerateChunk> Ask(rollout::Client& client, v1::GenerateRequest request, double seconds);

 private:
  const gateway::GatewayOptions gateway_;
  const std::shared_ptr<rollout::Client> own_;
  const std::map<std::string, std::shared_ptr<rollout::Client>> external_;
  mutable base::Mutex mu_;
  mutable std::map<std::string, Place> places_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::app
