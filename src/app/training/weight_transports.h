// Sends new weights to the engines, as configured for each engine: over gRPC, as one broadcast to several engines
// (weights/broadcast_set.h), or through an object store that the trainer and the engines share
// (weights/stores/version_layout.h).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "app/run/run_config.h"
#include "app/run/run_dir.h"
#include "base/status.h"
#include "proto/grpc_channel.h"
#include "weights/broadcast_set.h"
#include "weights/publisher.h"
#include "weights/sink.h"
#include "weights/stores/follower.h"
#include "weights/stores/version_writer.h"

namespace ingot::app {

// Checks every store used for weights before anything starts. Errors report a directory that is not writable, a missing
// bucket, invalid credentials, or versions from another run. Changes nothing. `folder` is the run's.
absl::Status CheckWeightStores(const RunConfig& config, const std::string& folder);

// Claims the stores for this run before its roles start, so that the roles ignore versions from an earlier run with the
// same name. Returns FAILED_PRECONDITION if there are such versions and run.if_exists does not allow replacing them.
absl::Status ClaimWeightStores(const RunConfig& config, const RunDir& dir);

// Returns whether each trainer rank stores its own part of every version. This requires several ranks, one store for
// all engines, no configured number of shards, no pinned versions, and no eval.keep_best.
bool RanksStoreVersions(const RunConfig& config);

// Returns the store for a rank's parts.
absl::StatusOr<weights::VersionStore> RankStoreOf(const RunConfig& config, const RunDir& dir);

// Creates the trainer's side of broadcasts (app/training/weight_group_service.h).
struct BroadcastEnds {
  weights::BroadcastSet::MakeRoot make_root;
  std::function<std::shared_ptr<weights::BroadcastMember>(v1::RoleChannel)> member;
};

// Sends weights from the trainer. Not thread safe, but its sinks are.
class WeightTransports {
 public:
  // REQUIRES: `publisher` outlives this object and its sinks.
  WeightTransports(const RunConfig& config, const RunDir& dir, const weights::Publisher& publisher, BroadcastEnds ends)
      : config_(config), dir_(dir), publisher_(publisher), ends_(std::move(ends)) {}

  // Returns the sink for an engine. Opens a store when it is first used.
  absl::StatusOr<std::shared_ptr<weights::Sink>> SinkTo(const std::string& engine, v1::RoleChannel channel);

  // Returns a writer for versions that the ranks store, or null if they do not.
  absl::StatusOr<std::shared_ptr<weights::VersionWriter>> RankWriter();

 private:
  absl::StatusOr<std::shared_ptr<weights::VersionWriter>> WriterTo(WeightTransport transport);

  const RunConfig& config_;
  const RunDir& dir_;
  const weights::Publisher& publisher_;
  const BroadcastEnds ends_;
  std::shared_ptr<weights::BroadcastSet> broadcasts_;  // null until the first engine uses broadcasts
  std::map<WeightTransport, std::shared_ptr<weights::VersionWriter>> writers_;
};

// Returns an engine's follower, which fetches the weights from a store, or null if there is no store. REQUIRES: `sink`
// and `codec` outlive it.
absl::StatusOr<std::unique_ptr<weights::Follower>> FollowWeights(const RunConfig& config, const RunDir& dir,
                                                                 const std::string& engine, weights::Sink& sink,
                                                                 const weights::CodecOptions& codec);

}  // namespace ingot::app
