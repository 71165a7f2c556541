// Implements Context-1's retrieval reward (Chroma's technical report). It rewards finding the documents that a task
// needs and searching until they have been seen. It penalizes many small prunes and many turns.
//
//   reward  = 0.7 F_beta + 0.3 r_traj + r_fa            = r_pre
//   value   = clamp(r_pre - p_prune - p_turn, eps, r_pre)
//
//   F_beta  = (1 + b^2) P R / (b^2 P + R)     precision and recall of the returned ids
//   r_traj  = recall of everything that was seen, including what was pruned later
//   r_fa    = `answer_bonus` if a returned chunk contains the answer
//   p_prune = 0.1 per prune beyond 3 in a row, at most 0.5
//   p_turn  = 0 up to 64 turns, then linear to 0.5 at 128
//
// beta (b) decreases from `beta` to `beta_end` in equal steps, one per epoch. Recall is weighted b^2 times as much as
// precision. The report gives no value for eps; 0.01 is ours.
//
// The task lists the relevant ids and the ids of chunks that contain the answer. The agent posts three facts:
//
//   seen      list of all ids shown by searches or reads
//   returned  list of ids in its final answer; absent = the agent ended without an answer, and the value is 0
//   pruned    list of {"turn": Call.sequence, "ids": [..]}, one entry per prune, in order
//
// Returned ids that were never seen count as wrong, so guessing does not pay.
#pragma once

#include <string>

#include "reward/term.h"

namespace ingot::reward {

struct RetrievalOptions {
  double beta = 4;
  double beta_end = 2;
  int32_t epochs = 2;
  double answer_bonus = 1;                      // r_fa
  double floor = 0.01;                          // eps
  std::string relevant_field = "relevant_ids";  // dotted path
  std::string answer_field = "answer_ids";      // dotted path

  absl::Status Validate() const;
};

void Bind(base::Schema& schema, RetrievalOptions& options);

class RetrievalTerm final : public RewardTerm {
 public:
  explicit RetrievalTerm(const RetrievalOptions& options) : options_(options) {}
  absl::StatusOr<std::vector<absl::StatusOr<TermResult>>> Judge(const GroupFacts& group) const override;

 private:
  double BetaAt(int64_t version, int64_t total_steps) const;
  RetrievalOptions options_;
};

}  // namespace ingot::reward
