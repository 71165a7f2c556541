// The weights.* keys of the transports, and their checks.
#include <algorithm>
#include <set>

#include "app/run/role_schemas.h"
#include "base/bounds.h"
#include "weights/stores/version_layout.h"

namespace ingot::app {
namespace {

const std::vector<std::string>& Transports() {
  static const auto& names = *new std::vector<std::string>{"grpc", "directory", "s3", "broadcast"};
  return names;
}

void BindS3(base::Schema& schema, WeightTransportConfig& o) {
  schema.Field("weights.s3.endpoint", &o.s3.endpoint, "https://HOST[:PORT] of S3 or of an S3-compatible server");
  schema.Field("weights.s3.region", &o.s3.region, "of the bucket");
  schema.Field("weights.s3.bucket", &o.s3.bucket, "name of an existing bucket");
  schema.Field("weights.s3.prefix", &o.s3.prefix, "of the keys: objects are PREFIX/RUN/...; empty: RUN/...");
  schema.Field("weights.s3.credentials_file", &o.s3_credentials,
               "file with aws_access_key_id and aws_secret_access_key, readable only by its owner; empty: the "
               "environment's AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN");
  schema.Field("weights.s3.ca", &o.s3.ca, "PEM file of the endpoint's certificate authorities; empty: the system's");
  schema.Field("weights.s3.allow_plaintext", &o.s3.allow_plaintext,
               "allows an endpoint http:// on another machine: for private networks");
  schema.Field("weights.s3.part_bytes", &o.s3.part_bytes,
               "of one part of an upload and of one ranged read; 5 MiB to 1 GiB");
  schema.Field("weights.s3.parallel", &o.s3.parallel, "parts of one object in flight at a time; 1 to 64");
}

}  // namespace

absl::StatusOr<WeightTransport> TransportOf(const WeightTransportConfig& options, const std::string& engine) {
  const auto exception = options.engines.find(engine);
  if (exception == options.engines.end()) return options.transport;
  const auto found = std::find(Transports().begin(), Transports().end(), exception->second);
  if (found != Transports().end()) return static_cast<WeightTransport>(found - Transports().begin());
  return absl::InvalidArgumentError(absl::StrCat("weights.engines: ", engine, " has the transport '", exception->second,
                                                 "': grpc, directory, s3 or broadcast"));
}

void BindWeightTransport(base::Schema& schema, WeightTransportConfig& o) {
  schema.Choice("weights.transport", &o.transport, Transports(),
                "how new weights reach engines in other processes: grpc: sent to each; directory, s3: stored once "
                "and fetched by each; broadcast: sent to all of them at once, over c10d");
  schema.Field("weights.engines", &o.engines, "engines with another transport, such as {rollout-1: s3}");
  schema.Field("weights.shards", &o.shards,
               "objects that a version is stored as, written and read at a time; 0: one for each of "
               "cluster.trainer_ranks; at most 64");
  schema.Field("weights.anchor_every", &o.anchor_every,
               "versions between two stored full copies, from which engines that join begin");
  schema.Field("weights.poll_ms", &o.poll_ms,
               "milliseconds between two looks of an engine at the newest stored version, and of the trainer at its "
               "acknowledgement");
  schema.Field("weights.silence_s", &o.silence_s,
               "seconds without a sign of life in the store after which an engine counts as gone");
  schema.Field("weights.directory.path", &o.directory,
               "directory that trainer and engines share; empty: weights in the run's folder");
  BindS3(schema, o);
}

absl::Status CheckWeightTransport(const WeightTransportConfig& options, int engines) {
  std::set<WeightTransport> used;
  for (int i = 0; i < engines; ++i) {
    INGOT_ASSIGN_OR_RETURN(const WeightTransport transport, TransportOf(options, absl::StrCat("rollout-", i)));
    used.insert(transport);
  }
  for (const auto& [engine, transport] : options.engines) {
    const bool known = [&, &engine = engine] {
      for (int i = 0; i < engines; ++i) {
        if (engine == absl::StrCat("rollout-", i)) return true;
      }
      return false;
    }();
    if (known) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("weights.engines names '", engine, "': the engines are rollout-0 to rollout-", engines - 1));
  }
  INGOT_RETURN_IF_ERROR(base::Positive("weights.anchor_every", options.anchor_every));
  INGOT_RETURN_IF_ERROR(base::Positive("weights.poll_ms", static_cast<double>(options.poll_ms)));
  INGOT_RETURN_IF_ERROR(base::Positive("weights.silence_s", options.silence_s));
  INGOT_RETURN_IF_ERROR(base::NotNegative("weights.shards", options.shards));
  if (options.shards > weights::kMaxShards) {
    return absl::InvalidArgumentError(
        absl::StrCat("weights.shards is ", options.shards, ": at most ", weights::kMaxShards));
  }
  if (!used.contains(WeightTransport::kS3)) return absl::OkStatus();
  return base::Annotate(options.s3.Validate(), "weights.s3");
}

}  // namespace ingot::app
