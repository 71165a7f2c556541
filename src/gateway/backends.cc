#include "gateway/backends.h"

namespace ingot::gateway {

Backends::Backends(const GatewayOptions& options, const GatewayParts& parts) {
  follow_.engine = parts.engine.get();
  for (const ModelOptions& model : options.models) {
    Backend& backend = configured_[model.name];
    backend.engine = parts.engine.get();
    if (model.weights == ModelWeights::kPinned) {
      backend.weights = v1::WEIGHTS_PINNED;
      backend.version = model.version;
    } else if (model.weights == ModelWeights::kExternal) {
      backend.weights = v1::WEIGHTS_EXTERNAL;
      backend.engine = parts.external.at(model.name).get();
    }
  }
}

const Backend& Backends::Of(const std::string& model) const {
  const auto found = configured_.find(model);
  return found == configured_.end() ? follow_ : found->second;
}

}  // namespace ingot::gateway
