// Which gateway each running attempt was handed to. Gateways may come and go: Reconcile compares the run with what the
// pool holds. Not thread safe.
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
  // The attempt ended. False = it was not handed out, or ended before.
  bool Remove(v1::EpisodePurpose purpose, const v1::EpisodeRef& ref);
  // `gateway` was started or replaced: ends the running attempts of `run` that have ended in the pool, and those that
  // it lost before they were stored. Blocks for the pool.
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

  std::map<Place, std::string> gateways_;  // of the running attempts, and of some ended ones
};

}  // namespace ingot::scheduler
