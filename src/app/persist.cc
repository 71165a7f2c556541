#include "app/persist.h"

#include <optional>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/printable.h"
#include "base/waits.h"

namespace ingot::app {
namespace {

constexpr size_t kMostCauseBytes = 300;

std::string Text(const absl::Status& status) { return {status.message().data(), status.message().size()}; }

}  // namespace

bool IsTransient(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsResourceExhausted(status) ||
         absl::IsCancelled(status);
}

absl::Status Persist(const Patience& patience, std::string_view what, const std::function<absl::Status()>& attempt) {
  std::optional<std::chrono::nanoseconds> failing_since, warned;
  std::optional<base::Wait> wait;  // from the first failure on
  while (true) {
    const absl::Status status = attempt();
    const std::chrono::nanoseconds now = patience.clock->Now();
    if (!IsTransient(status)) {
      if (status.ok() && failing_since.has_value()) {
        INGOT_LOG(info, "{}: it went on after {:.0f} s", what,
                  std::chrono::duration<double>(now - *failing_since).count());
      }
      return base::Annotate(status, what);
    }
    if (patience.stopped()) return absl::CancelledError("the run was stopped");
    if (!failing_since.has_value()) failing_since = now;
    const std::string why = base::Printable(Text(status), {.max_bytes = kMostCauseBytes});
    const std::string cause = absl::StrCat(std::string(what), " (", why, ")");
    wait.has_value() ? wait->Because(cause) : (void)wait.emplace(cause);
    if (!warned.has_value() || now - *warned >= patience.warn_every) {
      warned = now;
      INGOT_LOG(warn, "{}: tried again until it succeeds or the run is stopped: {}", what, status.ToString());
    }
    if (patience.sleep) {
      patience.sleep(patience.pause);
    } else {
      std::this_thread::sleep_for(patience.pause);
    }
  }
}

absl::StatusOr<v1::NextBatchResponse> WaitForBatch(scheduler::Client& scheduler, int64_t step, const Patience& patience,
                                                   const std::function<void()>& waiting) {
  v1::NextBatchRequest request;
  request.set_step(step);
  request.set_wait_ms(200);
  v1::NextBatchResponse batch;
  const base::Wait wait(absl::StrCat("batch ", step), base::WaitKind::kWork);
  INGOT_RETURN_IF_ERROR(Persist(patience, absl::StrCat("asking for batch ", step), [&]() -> absl::Status {
    while (!patience.stopped()) {
      absl::StatusOr<v1::NextBatchResponse> response = scheduler.NextBatch(request);
      if (absl::IsDeadlineExceeded(response.status())) {  // its groups are not finished yet
        if (waiting) waiting();
        continue;
      }
      INGOT_ASSIGN_OR_RETURN(batch, std::move(response));
      return absl::OkStatus();
    }
    return absl::CancelledError("the run was stopped");
  }));
  return batch;
}

std::string DescribeWait(int64_t step, double seconds, const v1::FeedStats& last, const v1::FeedStats& now) {
  std::string text =
      fmt::format("waiting for batch {} since {:.0f} s: {} episodes run", step, seconds, now.running_episodes());
  if (const int64_t dropped = now.dropped() - last.dropped(); dropped > 0) {
    text += fmt::format(
        ", {} groups were dropped as all samples of each earned the same (mean reward {:.3f}); "
        "scheduler.max_drops_per_batch trains such groups all the same",
        dropped, now.reward_mean());
  }
  if (const int64_t failed = now.failed() - last.failed(); failed > 0) {
    text += fmt::format(", {} groups failed; see logs/ for why", failed);
  }
  return text;
}

absl::StatusOr<weights::PublishStats> PublishUntilLive(weights::Publisher& publisher,
                                                       std::shared_ptr<const weights::Snapshot> snapshot, bool retain,
                                                       const Patience& patience) {
  if (patience.stopped()) return absl::CancelledError("the run was stopped");
  weights::PublishStats stats;
  INGOT_RETURN_IF_ERROR(
      Persist(patience, absl::StrCat("publishing version ", snapshot->version()), [&]() -> absl::Status {
        INGOT_ASSIGN_OR_RETURN(stats, publisher.Publish(snapshot, retain));
        return absl::OkStatus();
      }));
  return stats;
}

}  // namespace ingot::app
