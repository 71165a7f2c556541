// The ways of new weights from the trainer to its engines, for each engine as the configuration says: gRPC, one broadcast
// for several engines (weights/broadcast_set.h), or a store of objects that trainer and engines share
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

// Uses every store that an engine's weights go through, before anything is started: an error tells of a directory that
// cannot be written, a bucket that is missing, credentials that fail, or another run's versions. Changes nothing.
// `folder`: the run's.
absl::Status CheckWeightStores(const RunConfig& config, const std::string& folder);

// Makes the stores this run's, before its roles are started: they then take no versions of an earlier run of the name.
// FAILED_PRECONDITION: there are some, and run.if_exists does not say to replace them.
absl::Status ClaimWeightStores(const RunConfig& config, const RunDir& dir);

// Whether the ranks of the trainer store the versions, each what it owns: several ranks, one store for all engines, and no
// number of shards or pinned version that asks for another way.
bool RanksStoreVersions(const RunConfig& config);

// A rank's own way into that store.
absl::StatusOr<weights::VersionStore> RankStoreOf(const RunConfig& config, const RunDir& dir);

// The trainer's ends of broadcasts (app/training/weight_group_service.h).
struct BroadcastEnds {
  weights::BroadcastSet::MakeRoot make_root;
  std::function<std::shared_ptr<weights::BroadcastMember>(v1::RoleChannel)> member;
};

// The trainer's side. Not thread safe; its sinks are.
class WeightWays {
 public:
  // `publisher` outlives it and its sinks.
  WeightWays(const RunConfig& config, const RunDir& dir, const weights::Publisher& publisher, BroadcastEnds ends)
      : config_(config), dir_(dir), publisher_(publisher), ends_(std::move(ends)) {}

  // The way to an engine; the first one through a store opens that.
  absl::StatusOr<std::shared_ptr<weights::Sink>> SinkTo(const std::string& engine, v1::RoleChannel channel);

  // Of versions that ranks store; null = they do not.
  absl::StatusOr<std::shared_ptr<weights::VersionWriter>> RankWriter();

 private:
  absl::StatusOr<std::shared_ptr<weights::VersionWriter>> WriterTo(WeightTransport transport);

  const RunConfig& config_;
  const RunDir& dir_;
  const weights::Publisher& publisher_;
  const BroadcastEnds ends_;
  std::shared_ptr<weights::BroadcastSet> broadcasts_;  // null before the first engine that takes part
  std::map<WeightTransport, std::shared_ptr<weights::VersionWriter>> writers_;
};

// An engine's side: fetches its weights if they come through a store; otherwise null. Both arguments outlive it.
absl::StatusOr<std::unique_ptr<weights::Follower>> FollowWeights(const RunConfig& config, const RunDir& dir,
                                                                 const std::string& engine, weights::Sink& sink,
                                                                 const weights::CodecOptions& codec);

}  // namespace ingot::app
