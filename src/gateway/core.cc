#include "gateway/core.h"

#include <utility>

#include "gateway/api_error.h"

namespace ingot::gateway {
Core::Core(GatewayOptions opts, GatewayParts services)
    : options(std::move(opts)),
      parts(std::move(services)),
      writers(options.writer_threads, options.max_queued_work),
      workers(options.worker_threads, options.max_queued_work) {
  follow.engine = parts.engine.get();
  for (const ModelOptions& model : options.models) {
    Backend& backend = backends[model.name];
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

const Backend& Core::BackendOf(const std::string& model) const {
  const auto found = backends.find(model);
  return found == backends.end() ? follow : found->second;
}

void Counters::CountCall(const absl::Status& status, bool was_aborted) {
  ++calls;
  if (status.ok()) {
    ++completed;
  } else if (was_aborted) {
    ++aborted;
  } else if (absl::IsResourceExhausted(status)) {
    ++refused;
  } else {
    ++failed;
  }
}

absl::Status ShuttingDown() { return ApiError(503, "shutting_down", "", "the gateway is shutting down"); }

}  // namespace ingot::gateway
