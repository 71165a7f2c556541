// Proposes tokens that the engine has seen after the same context: in the request itself, in its group's calls, or in
// earlier calls (SuffixDecoding, arXiv 2411.04975, but with n-grams instead of a suffix tree).
//
// A guess's acceptance is the mean of two moving averages: one for the request, and one for all guesses whose matches
// have the same length. Both also learn from guesses that were not verified.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "rollout/speculation/drafter.h"
#include "rollout/speculation/speculation_options.h"
#include "rollout/speculation/token_history.h"

namespace ingot::rollout {

class HistoryDrafter final : public Drafter {
 public:
  // REQUIRES: `options` are valid.
  explicit HistoryDrafter(const SpeculationOptions& options);

  std::string_view name() const override { return "history"; }
  void Begun(const Sequence& sequence, size_t cached) override;
  void Propose(std::span<const Ask> asks) override;
  void Sampled(const Sequence& sequence, size_t count) override;
  void Ended(const Sequence& sequence) override;

 private:
  struct Request {
    size_t kept = 0;             // tokens in history_
    double acceptance = -1;      // -1 = no guess yet
    int32_t match = 0;           // length of the match for `guess`
    std::vector<int32_t> guess;  // the last guess; empty = none since the last ids
  };

  void ProposeOne(const Ask& ask);
  void Learn(Request& request, std::span<const int32_t> sampled);
  void Keep(const Sequence& sequence, Request& request);

  const size_t max_drafts_;
  TokenHistory history_;
  std::vector<double> by_match_;  // acceptance by match length
  absl::flat_hash_map<const Sequence*, Request> requests_;
};

}  // namespace ingot::rollout
