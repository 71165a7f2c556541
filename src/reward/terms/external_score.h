// Gets a score from the user's server, for rewards that no other term computes. The term POSTs each episode as JSON, or
// all finished episodes of a group if `group` is set. The 200 response contains the scores (user_scores.h). If the
// server is down, late, or sends anything else, the episode's result is an error, never a 0.
#pragma once

#include <memory>
#include <string>

#include "reward/external.h"
#include "reward/term.h"
#include "reward/term_parts.h"

namespace ingot::reward {

struct ExternalOptions {
  std::string url;
  double timeout_s = 30;
  int32_t tries = 2;
  int32_t concurrency = 4;
  bool group = false;

  absl::Status Validate() const;
};

void Bind(base::Schema& schema, ExternalOptions& options);

class ExternalTerm final : public RewardTerm {
 public:
  ExternalTerm(const ExternalOptions& options, const TermParts& parts) : options_(options), scorer_(parts.external) {}
  absl::StatusOr<std::vector<absl::StatusOr<TermResult>>> Judge(const GroupFacts& group) const override;

 private:
  // Returns the server's response to `json`.
  absl::StatusOr<std::string> Ask(const std::string& json) const;
  absl::StatusOr<TermResult> ScoreOf(const EpisodeFacts& episode) const;

  const ExternalOptions options_;
  const std::shared_ptr<const ExternalScorer> scorer_;
};

}  // namespace ingot::reward
