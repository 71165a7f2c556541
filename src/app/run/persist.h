// Retries after transient faults, such as a restarting role, missing engines, or a full disk. Used by the training
// thread and by roles that are starting. Retries continue until the run is stopped and are logged.
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
  const std::atomic<bool>* stop;          // ends all retries when set; REQUIRES: not null
  std::chrono::milliseconds pause{1000};  // pause between attempts
  std::chrono::seconds warn_every{60};    // interval between warnings; the first is immediate
  const base::Clock* clock = &base::Clock::Real();
  std::function<void(std::chrono::milliseconds)> sleep = {};  // null = sleep on the calling thread

  bool stopped() const { return stop->load(); }
};

// Same as base::Persist, but with logging, a constant interval, and no time limit. Calls `attempt` until it returns OK
// or an error that is not transient, and returns that status. ABORTED is not transient, because a replaced role must
// stop. Returns CANCELLED if `stop` is set and an attempt then fails, so a stopped run still gets one attempt to write
// its data. `what` names the attempt in logs and errors and, after the first failure, in a `Wait` (base/waits.h).
absl::Status Persist(const RetryPolicy& retry, std::string_view what, const std::function<absl::Status()>& attempt);

// Waits for batch `step`. Calls `waiting` several times a second until the batch arrives. Returns errors of `waiting`.
absl::StatusOr<v1::NextBatchResponse> WaitForBatch(scheduler::Client& scheduler, int64_t step, const RetryPolicy& retry,
                                                   const std::function<absl::Status()>& waiting = {});

// Returns "prefill 34816 of 401200 tokens of 2 requests, the oldest for 150 s", or empty if no request is in prefill.
std::string DescribePrefill(const v1::EngineStatusResponse& engines);

// Returns a terminal line that explains why a batch is taking so long. It is based on the scheduler's progress since
// the previous batch, the gateways' episodes that have made no call, and the engines' state if they respond.
std::string DescribeWait(int64_t step, double seconds, const v1::FeedStats& last, const v1::FeedStats& now,
                         const v1::GatewayStatusResponse& gateways,
                         const absl::StatusOr<v1::EngineStatusResponse>& engines);

// Publishes until there is at least one leased engine and the version is live on all of them. Returns CANCELLED
// immediately if the run is stopped, because engines that are stopping could delay it and the version still has to be
// saved. Returns the error of `fault` (RoleClients::engine_fault), because such an engine never takes a version.
absl::StatusOr<weights::PublishStats> PublishUntilLive(weights::Publisher& publisher,
                                                       std::shared_ptr<const weights::Snapshot> snapshot, bool retain,
                                                       const RetryPolicy& retry,
                                                       const std::function<absl::Status()>& fault = {});

}  // namespace ingot::app
