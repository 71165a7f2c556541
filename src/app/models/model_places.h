// Finds the engines that serve the models in gateway.models, for calls outside of episodes: teachers and judges. Thread
// safe.
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
  // `own` is the run's engines, which retain the pinned versions. `external` has the clients for external model
  // servers, by name.
  ModelPlaces(const gateway::GatewayOptions& gateway, std::shared_ptr<rollout::Client> own,
              std::map<std::string, std::shared_ptr<rollout::Client>> external)
      : gateway_(gateway), own_(std::move(own)), external_(std::move(external)) {}

  struct Place {
    std::shared_ptr<rollout::Client> client;
    int64_t version = 0;    // version to pin
    std::string tokenizer;  // fingerprint; empty = the engine does not report one
  };
  // Returns NOT_FOUND if the model does not exist or has no engine, and UNAVAILABLE if its engine is not answering. An
  // external server serves one version and is queried once for its number.
  absl::StatusOr<Place> PlaceOf(const std::string& name) const;

  // Returns the response to `request` with all chunks merged. Blocks. Returns UNAVAILABLE after `seconds`, or if the
  // engine is full.
  static absl::StatusOr<v1::GenerateChunk> Ask(rollout::Client& client, v1::GenerateRequest request, double seconds);

 private:
  const gateway::GatewayOptions gateway_;
  const std::shared_ptr<rollout::Client> own_;
  const std::map<std::string, std::shared_ptr<rollout::Client>> external_;
  mutable base::Mutex mu_;
  mutable std::map<std::string, Place> places_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::app
