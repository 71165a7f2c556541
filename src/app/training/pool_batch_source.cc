#include "app/training/pool_batch_source.h"

#include <chrono>
#include <string>
#include <utility>

#include "app/terminal/seconds.h"
#include "base/work.h"
#include "tree/forest.h"

namespace ingot::app {
namespace {

constexpr int kProbeContexts = 16;
constexpr std::chrono::seconds kReportWaitAfter{10};

}  // namespace

PoolBatchSource::PoolBatchSource(const RoleClients& clients, const RetryPolicy& retry, StepLine& line)
    : clients_(clients), retry_(retry), line_(line) {
  // Starts counting now, so that a resumed run's first batch ignores groups that ended earlier.
  if (const auto status = clients.scheduler->Status(); status.ok()) feed_ = status->stats();
}

absl::StatusOr<trainer::TrainBatch> PoolBatchSource::Next(int64_t step) {
  const base::Clock& clock = *retry_.clock;
  const auto start = clock.Now();
  auto reported = start;
  const auto waiting = [&]() -> absl::Status {
    if (clients_.engine_fault) INGOT_RETURN_IF_ERROR(clients_.engine_fault());
    if (clock.Now() - reported < kReportWaitAfter) return absl::OkStatus();
    reported = clock.Now();
    const absl::StatusOr<v1::SchedulerStatusResponse> status = clients_.scheduler->Status();
    if (!status.ok()) return absl::OkStatus();
    const UncalledEpisodes uncalled = AskUncalled(clients_.gateways);
    line_.Note(DescribeWait(step, SecondsSince(clock, start), feed_, status->stats(), uncalled.all,
                            clients_.engine->Status()));
    return absl::OkStatus();
  };
  INGOT_ASSIGN_OR_RETURN(const v1::NextBatchResponse response,
                         WaitForBatch(*clients_.scheduler, step, retry_, waiting));
  trainer::TrainBatch batch;
  batch.step = step;
  batch.feed = feed_ = response.stats();
  base::WorkPart reading(absl::StrCat("reading batch ", step),
                         {.total = response.batch().group_ids_size(), .unit = "groups"});
  for (const int64_t id : response.batch().group_ids()) {
    v1::GetGroupRequest request;
    request.set_group_id(id);
    request.set_purpose(v1::PURPOSE_TRAIN);
    INGOT_RETURN_IF_ERROR(
        Persist(retry_, absl::StrCat("reading group ", id, " of batch ", step), [&]() -> absl::Status {
          INGOT_ASSIGN_OR_RETURN(v1::Group group, clients_.pool->GetGroup(request));
          batch.groups.push_back(std::move(group));
          return absl::OkStatus();
        }));
    reading.Advance(1);
  }
  CollectContexts(batch.groups);
  return batch;
}

void PoolBatchSource::CollectContexts(const std::vector<v1::Group>& groups) {
  contexts_.clear();
  for (const v1::Group& group : groups) {
    for (const v1::EpisodeTree& tree : group.episodes()) {
      if (tree.calls().empty()) continue;
      const absl::StatusOr<tree::CallPath> last = tree::CallPathOf(tree, tree.calls_size() - 1);
      if (!last.ok()) continue;  // the trainer reports the error
      contexts_.push_back(last->context.Tokens());
      temperature_ = last->temperature;
      if (contexts_.size() >= kProbeContexts) return;
    }
  }
}

}  // namespace ingot::app
