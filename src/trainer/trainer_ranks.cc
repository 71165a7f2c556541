// The part of Trainer for several ranks: orders, shared errors, exchanged tallies, common checkpoints
// (parallel/ranks.h).
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "trainer/parallel/divide.h"
#include "trainer/parallel/wire.h"
#include "trainer/pass/window_pairs.h"
#include "trainer/torch_edge.h"
#include "trainer/trainer.h"
#include "trainer/weights_of.h"
#include "tree/cut.h"

namespace ingot::trainer {
namespace {

std::vector<std::string> AllGather(Ranks& ranks, Writer own) {
  OrThrow(ranks.Agree(absl::OkStatus()));
  absl::StatusOr<std::vector<std::string>> all = ranks.AllGatherBytes(own.Release());
  OrThrow(all.status());
  return *std::move(all);
}

// Floating-point operations, forward and backward.
RowCosts CostsOf(const model::ModelConfig& config) {
  const PairFlops pairs(config);
  return {.row = LayerFlops(config, 1),
          .pair = pairs.full,
          .loss_entry = HeadFlops(config, 1),
          .window_pair = pairs.windowed,
          .window = config.sliding_window};
}

// An entry's log-probs, exchanged for objectives of whole batches.
struct Score {
  int32_t call, offset;
  double current, reference;
};

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

}  // namespace

absl::Status Trainer::SendOrder(Order order, const std::string& what) {
  if (ranks_ == nullptr || !ranks_->leads()) return absl::OkStatus();
  Writer message;
  message.Put(order).PutText(what);
  return ranks_->BroadcastBytes(message.Release(), 0).status();
}

absl::Status Trainer::Follow() {
  while (true) {
    INGOT_ASSIGN_OR_RETURN(const std::string message, ranks_->BroadcastBytes("", 0));
    Reader reader(message);
    const auto order = reader.Get<Order>();
    const std::string_view what = reader.GetText();
    INGOT_RETURN_IF_ERROR(reader.status());
    if (order == Order::kDismiss) {
      ranks_->Leave();
      return absl::OkStatus();
    }
    const absl::Status done = ExecuteOrder(order, what);
    if (ranks_->broken()) return done;
    if (!done.ok()) INGOT_LOG(warn, "failed on every rank: {}", std::string(done.message()));
  }
}

absl::Status Trainer::ExecuteOrder(Order order, std::string_view what) {
  Reader reader(what);
  switch (order) {
    case Order::kSave: {
      const auto step = reader.Get<int64_t>();
      return SaveTogether(std::string(reader.GetText()), step, {}).status();
    }
    case Order::kBeginStage: {
      const auto kind = reader.Get<StageKind>();
      const auto threads = reader.Get<int>();
      return BeginStage(kind, std::string(reader.GetText()), threads);
    }
    case Order::kStageStep: {
      const auto step = reader.Get<int64_t>();
      const auto rate = reader.Get<double>();
      const absl::StatusOr<std::vector<tree::CallPath>> calls = ReadCalls(reader);
      return calls.ok() ? StageStep(*calls, step, rate).status() : ShareError(ranks_, calls.status());
    }
    case Order::kEndStage:
      return EndStage();
    case Order::kStore:
      return StoreTogether(reader.Get<StoreOrder>()).status();
    case Order::kStep:
    case Order::kDismiss:
      break;
  }
  const absl::StatusOr<TrainBatch> batch = DecodeBatch(what);
  return batch.ok() ? TrainStep(*batch).status() : ShareError(ranks_, batch.status());
}

absl::Status Trainer::Dismiss() {
  if (ranks_ == nullptr || ranks_->broken()) return absl::OkStatus();
  const absl::Status reported = SendOrder(Order::kDismiss, "");
  ranks_->Leave();
  return reported;
}

absl::StatusOr<tree::PackedForest> Trainer::PackShare(const PreparedBatch& batch) const {
  if (ranks_ == nullptr) return PackBatch(batch);
  const std::vector<int32_t> rank_of = DivideCalls(batch.calls, ranks_->size(), CostsOf(config()));
  std::vector<int32_t> own = tree::OrderChainFirst(batch.calls);
  std::erase_if(own, [&](int32_t call) { return rank_of[static_cast<size_t>(call)] != ranks_->rank(); });
  return PackBatch(batch, own);
}

int64_t Trainer::AgreeOnSlots(const tree::PackedForest& forest) {
  if (ranks_ == nullptr) return 0;
  Writer own;
  own.Put(forest.entries.empty() ? int64_t{0} : std::ssize(tree::CutForest(forest, policy_.pass().part_tokens)));
  int64_t slots = 0;
  for (const std::string& parts : AllGather(*ranks_, std::move(own))) {
    slots = std::max(slots, Reader(parts).Get<int64_t>());
  }
  return slots;
}

void Trainer::ShareScores(const tree::PackedForest& forest, StepLoss& loss) {
  if (ranks_ == nullptr) return;
  Writer own;
  for (const tree::LossEntry& entry : forest.entries) {
    own.Put(Score{entry.call, entry.offset, loss.RecordedCurrent(entry), loss.RecordedReference(entry)});
  }
  for (const std::string& bytes : AllGather(*ranks_, std::move(own))) {
    std::vector<tree::LossEntry> entries;
    std::vector<double> current, reference;
    for (Reader reader(bytes); !reader.done();) {
      const auto score = reader.Get<Score>();
      entries.push_back({0, 0, score.call, score.offset});
      current.push_back(score.current);
      reference.push_back(score.reference);
    }
    loss.RecordCurrent(entries, current);
    if (loss.needs_reference()) loss.RecordReference(entries, reference);
  }
}

void Trainer::MergeTallies(const PreparedBatch& batch, StepTally& tally) {
  if (ranks_ == nullptr) return;
  Writer own;
  own.Put(tally.plain);
  PutSums(tally.sums, own);
  for (const int32_t call : tally.non_finite_calls) own.Put(call);
  StepTally all;
  for (const std::string& bytes : AllGather(*ranks_, std::move(own))) {
    Reader reader(bytes);
    all.plain.Add(reader.Get<StepTally::Plain>());
    AddSums(reader, all.sums);
    while (!reader.done()) all.non_finite_calls.push_back(reader.Get<int32_t>());
    OrThrow(reader.status());
  }
  tally = std::move(all);
  if (!ranks_->leads()) return;
  // Tokens and pairs are reported of the batch's one merged forest, however ranks divided it.
  absl::StatusOr<tree::PackedForest> whole = PackBatch(batch);
  OrThrow(whole.status());
  tally.plain.merged_tokens = tally.plain.work.rows = static_cast<int64_t>(whole->size());
  tally.plain.work.visible_pairs = whole->visible_pairs;
  tally.plain.work.window_pairs = WindowPairs(whole->positions, config().sliding_window);
}

double Trainer::SumOfRanks(double own) {
  if (ranks_ == nullptr) return own;
  double sum = 0;
  Writer writer;
  writer.Put(own);
  for (const std::string& bytes : AllGather(*ranks_, std::move(writer))) sum += Reader(bytes).Get<double>();
  return sum;
}

void Trainer::MergeExperts() {
  if (ranks_ == nullptr || !experts_.has_value()) return;
  Writer own;
  experts_->Put(own);
  experts_->Reset();
  for (const std::string& bytes : AllGather(*ranks_, std::move(own))) {
    Reader reader(bytes);
    experts_->AddFrom(reader);
    OrThrow(reader.status());
  }
}

PolicyShift Trainer::MergeShift(const PolicyShift& own) {
  if (ranks_ == nullptr) return own;
  PolicyShift all;
  Writer writer;
  writer.Put(own);
  for (const std::string& bytes : AllGather(*ranks_, std::move(writer))) {
    Reader reader(bytes);
    all.Add(reader.Get<PolicyShift>());
    OrThrow(reader.status());
  }
  return all;
}

void Trainer::ShareFaults(std::string& tensors, std::vector<int32_t>& calls) {
  if (ranks_ == nullptr) return;
  Writer own;
  own.PutText(tensors);
  for (const int32_t call : calls) own.Put(call);
  tensors.clear();
  calls.clear();
  for (const std::string& bytes : AllGather(*ranks_, std::move(own))) {
    Reader reader(bytes);
    const std::string_view theirs = reader.GetText();
    if (tensors.empty()) tensors = theirs;
    while (!reader.done()) calls.push_back(reader.Get<int32_t>());
  }
}

absl::StatusOr<CheckpointInfo> Trainer::SaveTogether(const std::string& root, int64_t step,
                                                     const std::map<std::string, std::string>& extra_files) {
  if (stage_) {  // a stage's steps leave no snapshot
    INGOT_RETURN_IF_ERROR(AtTorchEdge("checkpoint", [&] {
      policy_.GatherSnapshot(version());
      return absl::OkStatus();
    }));
  }
  if (policy_.publishes_in_parts()) INGOT_RETURN_IF_ERROR(TakePart());  // names the weights
  const absl::StatusOr<std::string> begun =
      ranks_->leads() ? BeginCheckpoint(root, step) : absl::StatusOr<std::string>("");
  INGOT_RETURN_IF_ERROR(ranks_->Agree(begun.status()));
  INGOT_ASSIGN_OR_RETURN(const std::string folder, ranks_->BroadcastBytes(*begun, 0));
  const absl::StatusOr<CheckpointShard> own =
      WriteShard(folder, policy_.OwnParameters(), policy_.optimizer().State(), ranks_->rank(), ranks_->size());
  if (const absl::Status all = ranks_->Agree(own.status()); !all.ok()) {
    if (ranks_->leads()) AbandonCheckpoint(root, step);
    return base::Annotate(all, absl::StrCat("cannot write checkpoint ", folder, " (the earlier ones are untouched)"));
  }
  std::vector<CheckpointShard> shards;
  INGOT_RETURN_IF_ERROR(AtTorchEdge("checkpoint", [&]() -> absl::Status {
    for (const std::string& bytes : AllGather(*ranks_, Encode(*own))) {
      INGOT_ASSIGN_OR_RETURN(shards.emplace_back(), DecodeShard(bytes));
    }
    return absl::OkStatus();
  }));
  absl::StatusOr<CheckpointInfo> info = CheckpointInfo{};
  if (ranks_->leads()) {
    const absl::StatusOr<CheckpointContents> contents = Contents(step);
    info = contents.ok() ? FinishCheckpoint(root, *contents, shards, extra_files, options_.keep_checkpoints)
                         : absl::StatusOr<CheckpointInfo>(contents.status());
  }
  INGOT_RETURN_IF_ERROR(ranks_->Agree(info.status()));
  return info;
}

}  // namespace ingot::trainer
