// How new weights reach the trainer's engines, as configured for each engine: gRPC, one broadcast for several engines
// (weights/broadcast_set.h), or an object store that trainer and engines share (weights/stores/version_layout.h).
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

// Tries every store that an engine's weights go through, before anything starts: an error reports a directory that
// cannot be written, a missing bucket, credentials that fail, or another run's versions. Changes nothing.
// `folder`: the run's.
absl::Status CheckWeightStores(const RunConfig& config, const std::string& folder);

// Claims the stores for this run before its roles start, so that they ignore versions of an earlier run with this name.
// FAILED_PRECONDITION: there are such versions, and run.if_exists does not allow replacing them.
absl::Status ClaimWeightStores(const RunConfig& config, const RunDir& dir);

// Whether the ranks of the trainer store the versions, each rank its own part: several ranks, one store for all
// engines, and no number of shards or pinned version that prevents it.
bool RanksStoreVersions(const RunConfig& config);

// A rank's writer for that store.
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

  // The path to an engine; the first one through a store opens the store.
  absl::StatusOr<std::shared_ptr<weights::Sink>> SinkTo(const std::string& engine, v1::RoleChannel channel);

  // For versions that ranks store; null = they do not.
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
