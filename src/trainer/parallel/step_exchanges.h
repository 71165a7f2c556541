// What the ranks of a trainer exchange during one step: the division of its calls, their scores, and sums of what each
// rank computed. With one rank nothing is exchanged, and every function returns what it was given.
//
// Sums are added in the order of ranks, so that they are bit-identical for the same number of ranks.
//
// All functions are called by all ranks at the same place of their sequence, except PackShare and ReportBalance, which
// exchange nothing. Used by the thread of Ranks; throws c10::Error, and StatusError if a rank failed.
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
  // `ranks` (null = one rank) and `config` outlive this.
  StepExchanges(Ranks* ranks, const model::ModelConfig& config) : ranks_(ranks), config_(config) {}

  bool leads() const { return Leads(ranks_); }
  int rank() const { return ranks_ == nullptr ? 0 : ranks_->rank(); }

  // The merged forest of this rank's share of the batch's calls (divide.h). Errors as PackForest.
  absl::StatusOr<tree::PackedForest> PackShare(const PreparedBatch& batch) const;
  // The number of slots that every rank ends in this step: the parts of the rank that has the most of them. 0 with one
  // rank.
  int64_t AgreeOnSlots(const tree::PackedForest& forest, int64_t part_tokens) const;
  // Gives `loss` the scores that the other ranks recorded; it has those of `forest`.
  void ShareScores(const tree::PackedForest& forest, StepLoss& loss) const;

  double Sum(double own) const;
  PolicyShift Sum(const PolicyShift& own) const;
  // The following replace what this rank has by what all have.
  void SumTallies(const PreparedBatch& batch, StepTally& tally) const;
  void SumExperts(ExpertRecord& experts) const;
  // The first rank's faulty tensors, and all faulty calls.
  void CollectFaults(std::string& tensors, std::vector<int32_t>& calls) const;

  // Reports trainer/ranks, trainer/rank_balance and tree/computed_tokens; nothing with one rank.
  void ReportBalance(const StepTally& tally, StepMetrics& metrics) const;

 private:
  std::vector<std::string> AllGather(Writer own) const;

  Ranks* const ranks_;
  const model::ModelConfig& config_;
};

}  // namespace ingot::trainer
