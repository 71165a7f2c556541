// How the training thread outlives what passes by itself: a role that is being started again, engines that are all gone
// for a while, a disk that is full until somebody frees space. It waits until the run is stopped, and says so.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "proto/scheduler.pb.h"
#include "scheduler/client.h"
#include "weights/publisher.h"

namespace ingot::app {

// UNAVAILABLE, DEADLINE_EXCEEDED or RESOURCE_EXHAUSTED: the same call may succeed later. CANCELLED too, which is what a
// role answers that is itself being ended; this process's own end is known by its stop flag.
bool PassesByItself(const absl::Status& status);

struct Patience {
  const std::atomic<bool>* stop;          // ends every wait; REQUIRES: not null
  std::chrono::milliseconds pause{1000};  // between two tries
  std::chrono::seconds warn_every{60};    // after a first warning at once
  const base::Clock* clock = &base::Clock::Real();
  std::function<void(std::chrono::milliseconds)> sleep = {};  // null: the calling thread does

  bool stopped() const { return stop->load(); }
};

// Calls `attempt` until it is OK or fails with an error that does not pass by itself, which is returned. CANCELLED once
// `stop` is set and an attempt has failed since: what a run that is stopped has still to write is written if it can be.
// `what` is for the log and the error.
absl::Status Persist(const Patience& patience, std::string_view what, const std::function<absl::Status()>& attempt);

// Batch `step`, once there is one. `waiting` is called several times a second until then.
absl::StatusOr<v1::NextBatchResponse> WaitForBatch(scheduler::Client& scheduler, int64_t step, const Patience& patience,
                                                   const std::function<void()>& waiting = {});

// Why a batch takes long, for the terminal: what the scheduler has done since the last one.
std::string DescribeWait(int64_t step, double seconds, const v1::FeedStats& last, const v1::FeedStats& now);

// Returns when the version is live on an engine, and on every leased one. CANCELLED at once in a run that is stopped:
// engines that are ending too may keep it waiting, and what is left to do is to save the version.
absl::StatusOr<weights::PublishStats> PublishUntilLive(weights::Publisher& publisher,
                                                       std::shared_ptr<const weights::Snapshot> snapshot, bool retain,
                                                       const Patience& patience);

}  // namespace ingot::app
