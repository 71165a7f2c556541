// Retries of the training thread and of a role's start. They outlive transient faults: a role that restarts, a time
// without engines, a full disk. They wait until the run is stopped, and log that they wait.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "proto/gateway.pb.h"
#include "proto/rollout.pb.h"
#include "proto/scheduler.pb.h"
#include "scheduler/client.h"
#include "weights/publisher.h"

namespace ingot::app {

struct RetryPolicy {
  const std::atomic<bool>* stop;          // ends every wait; REQUIRES: not null
  std::chrono::milliseconds pause{1000};  // between two tries
  std::chrono::seconds warn_every{60};    // interval of warnings; the first comes at once
  const base::Clock* clock = &base::Clock::Real();
  std::function<void(std::chrono::milliseconds)> sleep = {};  // null = the calling thread sleeps

  bool stopped() const { return stop->load(); }
};

// base::Persist without a time limit, at a constant interval, with a log: calls `attempt` until it returns OK or an
// error that is not transient, and returns that. ABORTED is not transient: a role that was replaced must stop.
// CANCELLED if `stop` is set and an attempt fails after that, so a stopped run still gets one try to write what it has.
// `what` names the attempt in the log and the error and, after the first failure, in the waits of the process
// (base/waits.h).
absl::Status Persist(const RetryPolicy& retry, std::string_view what, const std::function<absl::Status()>& attempt);

// Waits for batch `step`, and calls `waiting` several times a second until it is there.
absl::StatusOr<v1::NextBatchResponse> WaitForBatch(scheduler::Client& scheduler, int64_t step, const RetryPolicy& retry,
                                                   const std::function<void()>& waiting = {});

// "prefill 34816 of 401200 tokens of 2 requests, the oldest for 150 s"; empty = no request waits for its prefill.
std::string DescribePrefill(const v1::EngineStatusResponse& engines);

// A line for the terminal: why a batch takes long, from the scheduler's progress since the previous batch, the gateways'
// episodes that have made no call, and the engines' state if they answer.
std::string DescribeWait(int64_t step, double seconds, const v1::FeedStats& last, const v1::FeedStats& now,
                         const v1::GatewayStatusResponse& gateways,
                         const absl::StatusOr<v1::EngineStatusResponse>& engines);

// Publishes until the version is live on every leased engine, of which there is at least one. CANCELLED at once in a
// stopped run: engines that also stop may delay it, and the version is still to be saved.
absl::StatusOr<weights::PublishStats> PublishUntilLive(weights::Publisher& publisher,
                                                       std::shared_ptr<const weights::Snapshot> snapshot, bool retain,
                                                       const RetryPolicy& retry);

}  // namespace ingot::app
