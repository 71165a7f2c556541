#include "trainer/policy/policy_checkpoint.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "trainer/parallel/wire.h"

namespace ingot::trainer {
namespace {

Writer Encode(const CheckpointShard& shard) {
  Writer writer;
  writer.Put(shard.parameter_bytes).Put(static_cast<uint64_t>(shard.parameters.size()));
  for (const std::string& name : shard.parameters) writer.PutText(name);
  for (const auto& [name, digest] : shard.files) writer.PutText(name).Put(digest);
  return writer;
}

absl::StatusOr<CheckpointShard> DecodeShard(std::string_view bytes) {
  Reader reader(bytes);
  CheckpointShard shard;
  shard.parameter_bytes = reader.Get<int64_t>();
  const auto count = reader.Get<uint64_t>();
  for (uint64_t i = 0; i < count && reader.status().ok(); ++i) shard.parameters.emplace_back(reader.GetText());
  while (!reader.done()) {
    const std::string name(reader.GetText());
    shard.files[name] = reader.Get<base::FileDigest>();
  }
  INGOT_RETURN_IF_ERROR(reader.status());
  return shard;
}

absl::Status FillIn(Policy& policy, CheckpointContents& contents) {
  if (!policy.publishes_in_parts()) {
    INGOT_ASSIGN_OR_RETURN(const auto snapshot, policy.TakeSnapshot());
    contents.weights_checksum = snapshot->policy_checksum();
  }
  contents.config = policy.config();
  contents.optimizer_steps = policy.optimizer().steps();
  return absl::OkStatus();
}

// Every rank writes its shard to the directory that rank 0 created, and all ranks get all shards. Rank 0's shard also has
// the prediction layers. Rank 0 abandons the checkpoint if a shard fails.
absl::StatusOr<std::vector<CheckpointShard>> WriteShards(const Policy& policy, Ranks& ranks, const std::string& root,
                                                         const CheckpointContents& contents) {
  const int64_t step = contents.step;
  const absl::StatusOr<std::string> begun =
      ranks.leads() ? BeginCheckpoint(root, step) : absl::StatusOr<std::string>("");
  INGOT_RETURN_IF_ERROR(ranks.Agree(begun.status()));
  INGOT_ASSIGN_OR_RETURN(const std::string folder, ranks.BroadcastBytes(*begun, 0));
  std::map<std::string, at::Tensor> weights = policy.OwnParameters();
  if (ranks.leads()) weights.insert(contents.mtp.begin(), contents.mtp.end());
  const absl::StatusOr<CheckpointShard> own =
      WriteShard(folder, weights, policy.optimizer().State(), ranks.rank(), ranks.size());
  if (const absl::Status all = ranks.Agree(own.status()); !all.ok()) {
    if (ranks.leads()) AbandonCheckpoint(root, step);
    return base::Annotate(all, absl::StrCat("cannot write checkpoint ", folder, " (the earlier ones are untouched)"));
  }
  INGOT_RETURN_IF_ERROR(base::Annotate(ranks.Agree(absl::OkStatus()), "checkpoint"));
  absl::StatusOr<std::vector<std::string>> written = ranks.AllGatherBytes(Encode(*own).Release());
  if (!written.ok()) return base::Annotate(written.status(), "checkpoint");
  std::vector<CheckpointShard> shards;
  for (const std::string& bytes : *written) {
    INGOT_ASSIGN_OR_RETURN(shards.emplace_back(), DecodeShard(bytes));
  }
  return shards;
}

}  // namespace

absl::StatusOr<CheckpointInfo> SavePolicy(Policy& policy, Ranks* ranks, const std::string& root,
                                          CheckpointContents contents,
                                          const std::map<std::string, std::string>& extra_files, int64_t keep) {
  if (ranks == nullptr) {
    INGOT_RETURN_IF_ERROR(FillIn(policy, contents));
    contents.parameters = policy.parameters();
    contents.optimizer = policy.optimizer().State();
    return WriteCheckpoint(root, contents, extra_files, keep);
  }
  INGOT_ASSIGN_OR_RETURN(const std::vector<CheckpointShard> shards, WriteShards(policy, *ranks, root, contents));
  absl::StatusOr<CheckpointInfo> info = CheckpointInfo{};
  if (ranks->leads()) {
    const absl::Status filled = FillIn(policy, contents);
    info = filled.ok() ? FinishCheckpoint(root, contents, shards, extra_files, keep)
                       : absl::StatusOr<CheckpointInfo>(filled);
  }
  INGOT_RETURN_IF_ERROR(ranks->Agree(info.status()));
  return info;
}

}  // namespace ingot::trainer
