#include "trainer/parallel/step_exchanges.h"

#include <algorithm>
#include <utility>

#include "trainer/parallel/divide.h"
#include "trainer/pass/forest_pass.h"
#include "trainer/pass/step_bound.h"
#include "trainer/pass/window_pairs.h"
#include "trainer/torch_edge.h"
#include "tree/cut.h"

namespace ingot::trainer {
namespace {

// Floating-point operations, forward and backward.
RowCosts CostsOf(const model::ModelConfig& config) {
  const PairFlops pairs(config);
  return {.row = LayerFlops(config, 1),
          .pair = pairs.full,
          .loss_entry = HeadFlops(config, 1),
          .window_pair = pairs.windowed,
          .window = config.sliding_window};
}

// An entry's log-probs, exchanged for objectives over whole batches.
struct Score {
  int32_t call, offset;
  double current, reference;
};

}  // namespace

std::vector<std::string> StepExchanges::AllGather(Writer own) const {
  OrThrow(ranks_->Agree(absl::OkStatus()));
  return OrThrow(ranks_->AllGatherBytes(own.Release()));
}

absl::StatusOr<tree::PackedForest> StepExchanges::PackShare(const PreparedBatch& batch) const {
  if (ranks_ == nullptr) return PackBatch(batch);
  const std::vector<int32_t> rank_of = DivideCalls(batch.calls, ranks_->size(), CostsOf(config_));
  std::vector<int32_t> own = tree::OrderChainFirst(batch.calls);
  std::erase_if(own, [&](int32_t call) { return rank_of[static_cast<size_t>(call)] != ranks_->rank(); });
  return PackBatch(batch, own);
}

int64_t StepExchanges::AgreeOnSlots(const tree::PackedForest& forest, int64_t part_tokens) const {
  if (ranks_ == nullptr) return 0;
  Writer own;
  own.Put(forest.entries.empty() ? int64_t{0} : std::ssize(tree::CutForest(forest, part_tokens)));
  int64_t slots = 0;
  for (const std::string& parts : AllGather(std::move(own))) slots = std::max(slots, Reader(parts).Get<int64_t>());
  return slots;
}

void StepExchanges::ShareScores(const tree::PackedForest& forest, StepLoss& loss) const {
  if (ranks_ == nullptr) return;
  Writer own;
  for (const tree::LossEntry& entry : forest.entries) {
    own.Put(Score{entry.call, entry.offset, loss.RecordedCurrent(entry), loss.RecordedReference(entry)});
  }
  for (const std::string& bytes : AllGather(std::move(own))) {
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

double StepExchanges::Sum(double own) const {
  if (ranks_ == nullptr) return own;
  double sum = 0;
  Writer writer;
  writer.Put(own);
  for (const std::string& bytes : AllGather(std::move(writer))) sum += Reader(bytes).Get<double>();
  return sum;
}

PolicyShift StepExchanges::Sum(const PolicyShift& own) const {
  if (ranks_ == nullptr) return own;
  PolicyShift all;
  Writer writer;
  writer.Put(own);
  for (const std::string& bytes : AllGather(std::move(writer))) {
    Reader reader(bytes);
    all.Add(reader.Get<PolicyShift>());
    OrThrow(reader.status());
  }
  return all;
}

void StepExchanges::SumTallies(const PreparedBatch& batch, StepTally& tally) const {
  if (ranks_ == nullptr) return;
  Writer own;
  own.Put(tally.plain);
  PutSums(tally.sums, own);
  for (const int32_t call : tally.non_finite_calls) own.Put(call);
  StepTally all;
  for (const std::string& bytes : AllGather(std::move(own))) {
    Reader reader(bytes);
    all.plain.Add(reader.Get<StepTally::Plain>());
    AddSums(reader, all.sums);
    while (!reader.done()) all.non_finite_calls.push_back(reader.Get<int32_t>());
    OrThrow(reader.status());
  }
  tally = std::move(all);
  if (!leads()) return;
  // Reports tokens and pairs of the batch's single merged forest, regardless of its division among ranks.
  const tree::PackedForest whole = OrThrow(PackBatch(batch));
  tally.plain.merged_tokens = tally.plain.work.rows = static_cast<int64_t>(whole.size());
  tally.plain.work.visible_pairs = whole.visible_pairs;
  tally.plain.work.window_pairs = WindowPairs(whole.positions, config_.sliding_window);
}

void StepExchanges::SumExperts(ExpertRecord& experts) const {
  if (ranks_ == nullptr) return;
  Writer own;
  experts.Put(own);
  experts.Reset();
  for (const std::string& bytes : AllGather(std::move(own))) {
    Reader reader(bytes);
    experts.AddFrom(reader);
    OrThrow(reader.status());
  }
}

void StepExchanges::CollectFaults(std::string& tensors, std::vector<int32_t>& calls) const {
  if (ranks_ == nullptr) return;
  Writer own;
  own.PutText(tensors);
  for (const int32_t call : calls) own.Put(call);
  tensors.clear();
  calls.clear();
  for (const std::string& bytes : AllGather(std::move(own))) {
    Reader reader(bytes);
    const std::string_view theirs = reader.GetText();
    if (tensors.empty()) tensors = theirs;
    while (!reader.done()) calls.push_back(reader.Get<int32_t>());
  }
}

void StepExchanges::ReportBalance(const StepTally& tally, StepMetrics& metrics) const {
  if (ranks_ == nullptr) return;
  const StepTally::Plain& plain = tally.plain;
  const double ranks = ranks_->size();
  metrics["trainer/ranks"] = ranks;
  metrics["trainer/rank_balance"] =
      plain.longest_busy_seconds > 0 ? plain.busy_seconds / ranks / plain.longest_busy_seconds : 1.0;
  metrics["tree/computed_tokens"] = static_cast<double>(plain.computed_tokens);
}

}  // namespace ingot::trainer
