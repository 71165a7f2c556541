#include "gateway/backends.h"

#include <algorithm>

namespace ingot::gateway {

std::optional<int64_t> LoadedUnixNanos(const Backend& backend, const v1::EngineStatusResponse& status) {
  const int64_t version = backend.weights == v1::WEIGHTS_PINNED ? backend.version : status.version();
  for (int i = 0; i < std::min(status.held_versions_size(), status.held_loaded_unix_ns_size()); ++i) {
    if (status.held_versions(i) == version) return status.held_loaded_unix_ns(i);
  }
  return std::nullopt;
}

Backends::Backends(const GatewayOptions& options, const GatewayParts& parts) {
  follow_.engine = parts.engine.get();
  stand_in_ = options.stand_in;
  for (const ModelOptions& model : options.models) {
    Backend& backend = configured_[model.name];
    backend.engine = parts.engine.get();
    if (model.weights == ModelWeights::kPinned) {
      backend.weights = v1::WEIGHTS_PINNED;
      backend.version = model.version;
    } else if (model.weights == ModelWeights::kExternal) {
      backend.weights = v1::WEIGHTS_EXTERNAL;
      if (model.url.empty()) {
        backend.engine = parts.external.at(model.name).get();
      } else {
        backend.text = parts.text_models.at(model.name).get();
      }
    }
  }
}

const Backend& Backends::Of(const std::string& model) const {
  auto found = configured_.find(model);
  if (found == configured_.end()) found = configured_.find(stand_in_);
  return found == configured_.end() ? follow_ : found->second;
}

}  // namespace ingot::gateway
