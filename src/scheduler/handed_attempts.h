// Tracks which gateway received each running attempt. Gateways may start and stop at any time, so Reconcile compares
// the run with the pool. Not thread safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/status.h"
#include "datapool/client.h"
#include "proto/scheduler.pb.h"
#include "scheduler/journal/journaled_run.h"

namespace ingot::scheduler {

class HandedAttempts {
 public:
  void Add(const v1::Ticket& ticket, const std::string& gateway, const JournaledRun& run);
  // Records that the attempt ended. Returns false if it was not handed out or had already ended.
  bool Remove(v1::EpisodePurpose purpose, const v1::EpisodeRef& ref);
  // Called when `gateway` was started or replaced. Ends the running attempts in `run` that have ended in the pool, and
  // those that the gateway lost before they were stored. Blocks on the pool.
  absl::StatusOr<v1::ReconcileResponse> Reconcile(const std::string& gateway, datapool::Client& pool,
                                                  JournaledRun& run) const;

 private:
  using Place = std::tuple<v1::EpisodePurpose, int64_t, int32_t, int32_t>;  // purpose, group, sample, attempt
  static Place PlaceOf(v1::EpisodePurpose purpose, const v1::EpisodeRef& ref) {
    return {purpose, ref.group_id(), ref.sample_index(), ref.attempt()};
  }
  absl::Status ReconcileAttempts(const std::string& gateway, v1::EpisodePurpose purpose,
                                 const std::vector<v1::EpisodeRef>& running, datapool::Client& pool, JournaledRun& run,
                                 v1::ReconcileResponse& found) const;

  std::map<Place, std::string> gateways_;  // the gateway of each running attempt and of some ended ones
};

}  // namespace ingot::scheduler
