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
  return absl::InvalidArgumentError(absl::StrCat("weights.engines: ", engine, " has the transport '", exception->second,
                                                 "': it must be one of ", absl::StrJoin(Transports(), ", ")));
}

void Bind(base::Schema& schema, WeightsConfig& o) {
  schema.Field("deadline_ms", &o.deadline_ms,
               "milliseconds for one engine to confirm a version; after that it loses its lease", base::Positive());
  schema.Field("zstd_level", &o.zstd_level, "of the delta codec; higher: smaller and slower",
               base::InRange(weights::CodecOptions::kMinLevel, weights::CodecOptions::kMaxLevel));
  WeightTransportConfig& transport = o.transports;
  schema.Choice("transport", &transport.transport, Transports(),
                "how new weights reach engines in other processes: grpc: sent to each; directory, s3: stored once "
                "and fetched by each; broadcast: sent to all of them at once, over c10d");
  schema.Field("engines", &transport.engines, "engines with another transport, such as {rollout-1: s3}");
  schema.Field("shards", &transport.shards,
               "objects that a version is stored as, written and read at a time; 0: one for each of "
               "cluster.trainer_ranks",
               base::InRange(0, weights::kMaxShards));
  schema.Field("anchor_every", &transport.anchor_every,
               "versions between two stored full copies, from which engines that join begin", base::Positive());
  schema.Field("poll_ms", &transport.poll_ms,
               "milliseconds between two looks of an engine at the newest stored version, and of the trainer at its "
               "acknowledgement",
               base::Positive());
  schema.Field("silence_s", &transport.silence_s,
               "seconds without a sign of life in the store after which an engine counts as gone", base::Positive());
  schema.Field("directory.path", &transport.directory,
               "directory that trainer and engines share; empty: weights in the run's folder");
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
