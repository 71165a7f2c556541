#include "trainer/checkpoints/stage_checkpoints.h"

#include <span>
#include <utility>

#include "base/checksum.h"
#include "base/json.h"
#include "trainer/checkpoints/files.h"

namespace ingot::trainer {
namespace {

constexpr char kBeganWith[] = "stage.json";

std::string Digest(const std::vector<tree::CallPath>& calls) {
  base::StreamingChecksum sum;
  const auto add = [&sum](const std::vector<int32_t>& ids) {
    const int64_t count = std::ssize(ids);
    sum.Update(std::as_bytes(std::span(&count, 1)));
    sum.Update(std::as_bytes(std::span(ids)));
  };
  for (const tree::CallPath& call : calls) {
    sum.Update(std::as_bytes(std::span(&call.episode, 1)));
    add(call.context.Tokens());
    add(call.sampled);
  }
  return base::Hex(sum.Digest());
}

}  // namespace

StageCheckpoints::StageCheckpoints(std::string root, uint64_t weights_checksum,
                                   const std::vector<tree::CallPath>& calls)
    : root_(std::move(root)) {
  const base::json::object began_with{{"data", Digest(calls)}, {"weights", base::Hex(weights_checksum)}};
  files_[kBeganWith] = base::PrintJson(began_with) + "\n";
}

absl::StatusOr<CheckpointInfo> StageCheckpoints::Newest() const {
  if (!kept()) return CheckpointInfo();
  const absl::StatusOr<CheckpointInfo> latest = LatestCheckpoint(root_);
  if (absl::IsNotFound(latest.status())) return CheckpointInfo();
  INGOT_RETURN_IF_ERROR(latest.status());
  INGOT_ASSIGN_OR_RETURN(const std::string began_with, ReadSmallFile(latest->path + "/" + kBeganWith));
  if (began_with == files_.at(kBeganWith)) return latest;
  return absl::FailedPreconditionError(absl::StrCat(latest->path,
                                                    " belongs to a stage that started with different data or weights: "
                                                    "use the same data, model, and seed again, or remove ",
                                                    root_, " to restart the stage"));
}

absl::StatusOr<int64_t> StageSteps(const std::string& root) {
  const absl::StatusOr<CheckpointInfo> latest = LatestCheckpoint(root);
  if (absl::IsNotFound(latest.status())) return 0;
  INGOT_RETURN_IF_ERROR(latest.status());
  return latest->step;
}

}  // namespace ingot::trainer
