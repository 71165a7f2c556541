// Proposes ids from the draft head of the request's version (model/draft_head.h), which reads the hidden state from
// which the request's last id was sampled. Ids are drawn from the head's distribution with the request's own race,
// seed, and index, so they often equal the ids that the policy will draw (coupled sampling, arXiv 2408.07978). They
// ignore penalties, biases, and grammars.
//
// A request has no guess before its first id, because its hidden states have not been computed yet. Propose only sets
// the number of guesses, and the head runs for those that the step verifies. After a failure, a version's head is not
// used again, which is logged once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "rollout/engine/model_runner.h"
#include "rollout/engine/sequence.h"
#include "rollout/speculation/drafter.h"
#include "rollout/speculation/head_draws.h"
#include "rollout/speculation/speculation_options.h"

namespace ingot::rollout {

class MtpDrafter final : public Drafter {
 public:
  // REQUIRES: `options` are valid, and `runner` outlives the drafter.
  MtpDrafter(const SpeculationOptions& options, ModelRunner& runner);

  std::string_view name() const override { return "mtp"; }
  void UseNewest(const std::shared_ptr<const WeightVersion>& version) override { newest_ = version; }
  void Propose(std::span<const Ask> asks) override;
  void Complete(std::span<const Ask> asks) override;
  int64_t failures() const override { return failures_; }
  void Sampled(const Sequence& sequence, size_t count) override;
  void Ended(const Sequence& sequence) override;

 private:
  struct Request {
    size_t slot = 0;
    bool ready = false;  // the slot has the hidden state from which the last id was sampled
    double acceptance = 0;
    std::vector<int32_t> guess;  // the last guess; empty = none since the last ids
  };

  const WeightVersion* VersionOf(const Sequence& sequence) const;
  // Fills in the drafts of requests on one version.
  void Draw(const WeightVersion& version, std::span<const Ask> asks);
  void Learn(Request& request, std::span<const int32_t> sampled);

  const size_t most_;
  ModelRunner& runner_;
  HeadDraws draws_;
  std::shared_ptr<const WeightVersion> newest_;
  uint64_t failed_salt_ = 0;  // salt of the last version whose head failed; 0 = none
  int64_t failures_ = 0;
  double acceptance_;  // mean over all requests
  absl::flat_hash_map<const Sequence*, Request> requests_;

  // Scratch memory.
  std::vector<HeadDraws::One> ones_;
  std::vector<Ask> of_version_, left_;
};

}  // namespace ingot::rollout
