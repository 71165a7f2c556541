// Implements DAPO's soft overlong punishment (arXiv 2503.14476, equation 13). There is no penalty up to a soft limit, a
// linear penalty from there to the maximum, and -1 beyond it.
//
//   len <= max - soft:  0      up to max:  (max - soft - len) / soft      beyond:  -1
//
// len is the number of tokens that the policy sampled in the episode.
#pragma once

#include "reward/term.h"

namespace ingot::reward {

struct OverlongOptions {
  int64_t max_tokens = 20480;  // L_max
  int64_t soft_tokens = 4096;  // L_cache; at most max_tokens

  absl::Status Validate() const;
};

void Bind(base::Schema& schema, OverlongOptions& options);

class OverlongTerm final : public EpisodeTerm {
 public:
  explicit OverlongTerm(const OverlongOptions& options) : options_(options) {}

 protected:
  absl::StatusOr<TermResult> Of(const EpisodeFacts& episode) const override;

 private:
  OverlongOptions options_;
};

}  // namespace ingot::reward
