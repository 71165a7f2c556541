#include "app/run/weights_options.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/config.h"
#include "weights/delta.h"
#include "weights/publisher.h"
#include "weights/stores/version_layout.h"

namespace ingot::app {
namespace {

const std::vector<std::string>& Transports() {
  static const auto& names = *new std::vector<std::string>{"grpc", "directory", "s3", "broadcast"};
  return names;
}

}  // namespace

absl::StatusOr<WeightTransport> TransportOf(const WeightTransportConfig& options, const std::string& engine) {
  const auto exception = options.engines.find(engine);
  if (exception == options.engines.end()) return options.transport;
  const auto found = std::find(Transports().begin(), Transports().end(), exception->second);
  if (found != Transports().end()) return static_cast<WeightTransport>(found - Transports().begin());
  return absl::InvalidArgumentError(absl::StrCat("weights.engines: ", engine, " uses the transport '",
                                                 exception->second, "': it must be one of ",
                                                 absl::StrJoin(Transports(), ", ")));
}

void Bind(base::Schema& schema, WeightsConfig& o) {
  schema.Field("deadline_ms", &o.deadline_ms,
               "milliseconds that an engine has to confirm a version before it loses its lease", base::Positive());
  schema.Field("zstd_level", &o.zstd_level, "compression level of weight updates; higher: smaller and slower",
               base::InRange(weights::CodecOptions::kMinLevel, weights::CodecOptions::kMaxLevel));
  WeightTransportConfig& transport = o.transports;
  schema.Choice("transport", &transport.transport, Transports(),
                "how new weights reach engines in other processes: grpc: sent to each; directory, s3: stored once and "
                "fetched by each; broadcast: sent to all at once, over c10d");
  schema.Field("engines", &transport.engines, "engines that use another transport, such as {rollout-1: s3}");
  schema.Field(
      "shards", &transport.shards,
      "number of objects that a version is stored as, which are written and read in parallel; 0: one per trainer rank",
      base::InRange(0, weights::kMaxShards));
  schema.Field("anchor_every", &transport.anchor_every,
               "versions between stored full copies; engines that join start from the last one", base::Positive());
  schema.Field("poll_ms", &transport.poll_ms,
               "milliseconds between polls: by an engine for the newest stored version, and by the trainer for an "
               "engine's acknowledgment",
               base::Positive());
  schema.Field("silence_s", &transport.silence_s,
               "seconds without a heartbeat in the store after which an engine counts as dead", base::Positive());
  schema.Field("directory.path", &transport.directory,
               "directory that the trainer and the engines share; empty: the folder weights in the run's folder");
  schema.Section("s3", transport.s3);
}

absl::Status WeightTransportConfig::Validate(int rollout_engines) const {
  std::set<WeightTransport> used;
  for (int i = 0; i < rollout_engines; ++i) {
    INGOT_ASSIGN_OR_RETURN(const WeightTransport transport, TransportOf(*this, absl::StrCat("rollout-", i)));
    used.insert(transport);
  }
  for (const auto& [engine, transport] : engines) {
    const bool known = [&, &engine = engine] {
      for (int i = 0; i < rollout_engines; ++i) {
        if (engine == absl::StrCat("rollout-", i)) return true;
      }
      return false;
    }();
    if (known) continue;
    return absl::InvalidArgumentError(absl::StrCat("weights.engines names '", engine,
                                                   "': the engines are rollout-0 to rollout-", rollout_engines - 1));
  }
  if (!used.contains(WeightTransport::kS3)) return absl::OkStatus();
  return base::Annotate(s3.Validate(), "weights.s3");
}

weights::PublisherOptions WeightsConfig::Options() const {
  weights::PublisherOptions options;
  options.deadline = std::chrono::milliseconds(deadline_ms);
  options.codec.zstd_level = zstd_level;
  return options;
}

}  // namespace ingot::app
