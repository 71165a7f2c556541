#include "app/training/run_versions.h"

#include <chrono>
#include <string>

#include "app/models/snapshots.h"
#include "app/terminal/seconds.h"
#include "base/checksum.h"

namespace ingot::app {

absl::StatusOr<weights::PublishStats> RunVersions::Publish(std::shared_ptr<const weights::Snapshot> snapshot,
                                                           bool retain) {
  const int64_t version = snapshot->version();
  const std::chrono::nanoseconds asked = retry_.clock->Now();
  INGOT_RETURN_IF_ERROR(pinned_.Save(shape_, snapshot));
  const double save_seconds = SecondsSince(*retry_.clock, asked);
  INGOT_ASSIGN_OR_RETURN(weights::PublishStats stats,
                         PublishUntilLive(parts_.publisher, snapshot, retain, retry_, parts_.clients.engine_fault));
  stats.save_ms = 1e3 * save_seconds;
  INGOT_RETURN_IF_ERROR(Persist(retry_, absl::StrCat("telling the scheduler that version ", version, " is live"),
                                [&] { return parts_.clients.scheduler->MarkVersionLive(version); }));
  INGOT_RETURN_IF_ERROR(KeepCandidate(snapshot, stats.retained));
  INGOT_RETURN_IF_ERROR(evaluations_.OnLive(version, stats.retained));
  if (!began_) {
    began_ = true;
    if (parts_.on_first_version) INGOT_RETURN_IF_ERROR(parts_.on_first_version());
  }
  return stats;
}

absl::Status RunVersions::KeepCandidate(const std::shared_ptr<const weights::Snapshot>& snapshot, bool retained) {
  const int64_t version = snapshot->version();
  if (!best_.on()) return absl::OkStatus();
  best_.DropOthers(evaluations_.running());
  if (!evaluations_.Starts(version, retained)) return absl::OkStatus();
  const BestModel::WriteModel write = [&](const std::string& folder) { return SaveSnapshot(folder, shape_, snapshot); };
  return Persist(retry_, absl::StrCat("keeping version ", version, " until its evaluation ends"),
                 [&] { return best_.Save(version, base::Hex(snapshot->policy_checksum()), write); });
}

absl::Status RunVersions::OnCheckpoint(const trainer::CheckpointInfo& checkpoint) {
  v1::CheckpointRequest request;
  request.set_step(checkpoint.step);
  request.set_weights_checksum(checkpoint.weights_checksum);
  return Persist(retry_, absl::StrCat("telling the scheduler of checkpoint ", checkpoint.step),
                 [&] { return parts_.clients.scheduler->MarkCheckpoint(request); });
}

}  // namespace ingot::app
