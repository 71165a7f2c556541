// The way of new weights to the engines. The Bind functions declare each key with its meaning, bounds and choices.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/status.h"
#include "weights/stores/s3_options.h"

namespace ingot::base {
class Schema;
}

namespace ingot::weights {
struct PublisherOptions;
}

namespace ingot::app {

// How new weights reach an engine in another process from the trainer.
enum class WeightTransport { kGrpc, kDirectory, kS3, kBroadcast };

struct WeightTransportConfig {
  WeightTransport transport = WeightTransport::kGrpc;
  std::map<std::string, std::string> engines;
  std::string directory;
  weights::S3Options s3;
  int32_t shards = 0;
  int32_t anchor_every = 16;
  int64_t poll_ms = 200;
  double silence_s = 10;

  // INVALID_ARGUMENT: keys that conflict. `rollout_engines`: their number.
  absl::Status Validate(int rollout_engines) const;
};

// INVALID_ARGUMENT: `engines` names no known transport for the engine.
absl::StatusOr<WeightTransport> TransportOf(const WeightTransportConfig& options, const std::string& engine);

struct WeightsConfig {
  int64_t deadline_ms = 30000;
  int32_t zstd_level = 1;
  WeightTransportConfig ways;

  weights::PublisherOptions Options() const;
};

void Bind(base::Schema& schema, WeightsConfig& options);

}  // namespace ingot::app
