// Exchanges data between a trainer's ranks during one step: the division of its calls, their scores, and sums over the
// ranks' results. With one rank, there are no exchanges, and every function returns its input.
//
// Sums are added in rank order, so they are bit-identical for the same number of ranks.
//
// All ranks must call all functions at the same point in their sequence, except PackShare and ReportBalance, which
// exchange nothing. Used on the thread that uses Ranks. Throws c10::Error, and StatusError if a rank failed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/config.h"
#include "trainer/batch.h"
#include "trainer/metrics.h"
#include "trainer/objectives/step_loss.h"
#include "trainer/parallel/ranks.h"
#include "trainer/parallel/wire.h"
#include "trainer/pass/expert_record.h"
#include "trainer/step_tally.h"
#include "trainer/trust_region.h"
#include "tree/forest.h"

namespace ingot::trainer {

class StepExchanges {
 public:
  // `ranks` (null = one rank) and `config` must outlive this object.
  StepExchanges(Ranks* ranks, const model::ModelConfig& config) : ranks_(ranks), config_(config) {}

  bool leads() const { return Leads(ranks_); }
  int rank() const { return ranks_ == nullptr ? 0 : ranks_->rank(); }

  // Returns the merged forest of this rank's share of the batch's calls (divide.h). Same errors as PackForest.
  absl::StatusOr<tree::PackedForest> PackShare(const PreparedBatch& batch) const;
  // Returns the number of slots that every rank ends in this step, which is the highest number of parts on any rank.
  // Returns 0 with one rank.
  int64_t AgreeOnSlots(const tree::PackedForest& forest, int64_t part_tokens) const;
  // Adds the scores that the other ranks recorded to `loss`, which already has those of `forest`.
  void ShareScores(const tree::PackedForest& forest, StepLoss& loss) const;

  double Sum(double own) const;
  PolicyShift Sum(const PolicyShift& own) const;
  // The following replace this rank's values with the combined values of all ranks.
  void SumTallies(const PreparedBatch& batch, StepTally& tally) const;
  void SumExperts(ExpertRecord& experts) const;
  // `tensors` becomes the first non-empty list of faulty tensors, in rank order, and `calls` becomes all faulty calls.
  void CollectFaults(std::string& tensors, std::vector<int32_t>& calls) const;

  // Reports trainer/ranks, trainer/rank_balance, and tree/computed_tokens. Reports nothing with one rank.
  void ReportBalance(const StepTally& tally, StepMetrics& metrics) const;

 private:
  std::vector<std::string> AllGather(Writer own) const;

  Ranks* const ranks_;
  const model::ModelConfig& config_;
};

}  // namespace ingot::trainer
