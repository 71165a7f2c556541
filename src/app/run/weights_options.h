// Configures how new weights reach the engines. The Bind functions declare each key with its meaning, bounds, and
// choices.
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

// Transport for new weights from the trainer to an engine in another process.
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

  // Returns INVALID_ARGUMENT if keys conflict. `rollout_engines` is the number of engines.
  absl::Status Validate(int rollout_engines) const;
};

// Returns an engine's transport. Returns INVALID_ARGUMENT if `engines` has an unknown transport for it.
absl::StatusOr<WeightTransport> TransportOf(const WeightTransportConfig& options, const std::string& engine);

struct WeightsConfig {
  int64_t deadline_ms = 30000;
  int32_t zstd_level = 1;
  WeightTransportConfig transports;

  weights::PublisherOptions Options() const;
};

void Bind(base::Schema& schema, WeightsConfig& options);

}  // namespace ingot::app
