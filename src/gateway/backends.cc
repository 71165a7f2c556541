#include "gateway/backends.h"

#include <algorithm>

#include "base/printable.h"
#include "gateway/api/api_error.h"

namespace ingot::gateway {

absl::Status CheckModelName(const GatewayOptions& options, const std::string& name) {
  const bool listed = std::any_of(options.models.begin(), options.models.end(),
                                  [&name](const ModelOptions& model) { return model.name == name; });
  const bool served = listed || name.empty() || name == options.model_name;
  return served || options.any_model_name ? absl::OkStatus() : UnknownModel(options, name);
}

absl::Status UnknownModel(const GatewayOptions& options, const std::string& name) {
  constexpr size_t kShown = 20;
  std::string names = options.model_name;
  for (size_t i = 0; i < std::min(options.models.size(), kShown - 1); ++i) {
    absl::StrAppend(&names, ", ", options.models[i].name);
  }
  if (options.models.size() >= kShown) names += ", ...";
  return ApiError(404, "model_not_found", "model",
                  absl::StrCat("there is no model '", base::Printable(name, {.max_bytes = 200}), "': use one of ",
                               names, ", or omit the name to use the first"));
}

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
