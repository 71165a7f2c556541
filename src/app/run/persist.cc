#include "app/run/persist.h"

#include <optional>
#include <thread>
#include <utility>

#include "app/run/uncalled_episodes.h"
#include "base/log.h"
#include "base/retry.h"
#include "base/waits.h"

namespace ingot::app {

absl::Status Persist(const RetryPolicy& retry, std::string_view what, const std::function<absl::Status()>& attempt) {
  std::optional<std::chrono::nanoseconds> failing_since, warned;
  const auto report = [&](const absl::Status& failure) {
    const std::chrono::nanoseconds now = retry.clock->Now();
    if (!failing_since.has_value()) failing_since = now;
    if (warned.has_value() && now - *warned < retry.warn_every) return;
    warned = now;
    INGOT_LOG(warn, "{}: retrying until it succeeds or the run is stopped: {}", what, failure.ToString());
  };
  const auto sleep = [&](std::chrono::nanoseconds) {
    retry.sleep ? retry.sleep(retry.pause) : std::this_thread::sleep_for(retry.pause);
  };
  const absl::Status status = base::Persist({.stopped = [&] { return retry.stopped(); },
                                             .sleep = sleep,
                                             .pause = retry.pause,
                                             .longest_pause = retry.pause,
                                             .on_failure = report,
                                             .clock = retry.clock},
                                            what, attempt);
  if (base::IsTransient(status)) return absl::CancelledError("the run was stopped");
  if (status.ok() && failing_since.has_value()) {
    INGOT_LOG(info, "{}: succeeded after {:.0f} s", what,
              std::chrono::duration<double>(retry.clock->Now() - *failing_since).count());
  }
  return base::Annotate(status, what);
}

absl::StatusOr<v1::NextBatchResponse> WaitForBatch(scheduler::Client& scheduler, int64_t step, const RetryPolicy& retry,
                                                   const std::function<absl::Status()>& waiting) {
  v1::NextBatchRequest request;
  request.set_step(step);
  request.set_wait_ms(200);
  v1::NextBatchResponse batch;
  const base::Wait wait(absl::StrCat("batch ", step), base::WaitKind::kWork);
  INGOT_RETURN_IF_ERROR(Persist(retry, absl::StrCat("asking for batch ", step), [&]() -> absl::Status {
    while (!retry.stopped()) {
      absl::StatusOr<v1::NextBatchResponse> response = scheduler.NextBatch(request);
      if (absl::IsDeadlineExceeded(response.status())) {  // the batch's groups are not finished yet
        if (waiting) INGOT_RETURN_IF_ERROR(waiting());
        continue;
      }
      INGOT_ASSIGN_OR_RETURN(batch, std::move(response));
      return absl::OkStatus();
    }
    return absl::CancelledError("the run was stopped");
  }));
  return batch;
}

std::string DescribePrefill(const v1::EngineStatusResponse& engines) {
  if (!engines.has_prefill()) return "";
  const v1::PrefillProgress& prefill = engines.prefill();
  return fmt::format("prefill {} of {} tokens of {} request{}, the oldest for {:.0f} s", prefill.prefilled(),
                     prefill.tokens(), prefill.requests(), prefill.requests() == 1 ? "" : "s",
                     prefill.oldest_seconds());
}

std::string DescribeWait(int64_t step, double seconds, const v1::FeedStats& last, const v1::FeedStats& now,
                         const v1::GatewayStatusResponse& gateways,
                         const absl::StatusOr<v1::EngineStatusResponse>& engines) {
  std::string text =
      fmt::format("waiting for batch {} for {:.0f} s: {} episodes running", step, seconds, now.running_episodes());
  if (const std::string uncalled = DescribeUncalled(gateways); !uncalled.empty())
    absl::StrAppend(&text, ", ", uncalled);
  if (engines.ok() && engines->has_prefill()) text += ", " + DescribePrefill(*engines);
  if (const int64_t dropped = now.dropped() - last.dropped(); dropped > 0) {
    text += fmt::format(
        ", {} groups were dropped because all samples of each earned the same (mean reward {:.3f}); "
        "set scheduler.max_drops_per_batch to train such groups anyway",
        dropped, now.reward_mean());
  }
  if (const int64_t failed = now.failed() - last.failed(); failed > 0) {
    text += fmt::format(", {} groups failed; see logs/ for why", failed);
  }
  return text;
}

absl::StatusOr<weights::PublishStats> PublishUntilLive(weights::Publisher& publisher,
                                                       std::shared_ptr<const weights::Snapshot> snapshot, bool retain,
                                                       const RetryPolicy& retry,
                                                       const std::function<absl::Status()>& fault) {
  if (retry.stopped()) return absl::CancelledError("the run was stopped");
  weights::PublishStats stats;
  INGOT_RETURN_IF_ERROR(Persist(retry, absl::StrCat("publishing version ", snapshot->version()), [&]() -> absl::Status {
    if (fault) INGOT_RETURN_IF_ERROR(fault());
    INGOT_ASSIGN_OR_RETURN(stats, publisher.Publish(snapshot, retain));
    return absl::OkStatus();
  }));
  return stats;
}

}  // namespace ingot::app
