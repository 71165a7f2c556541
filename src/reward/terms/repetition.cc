#include "reward/terms/repetition.h"

#include <algorithm>
#include <set>
#include <span>

#include "base/checksum.h"
#include "base/config.h"

namespace ingot::reward {

void Bind(base::Schema& schema, RepetitionOptions& o) {
  schema.Field("ngram", &o.ngram, "length of a repeated phrase, in tokens", base::AtLeast(1));
  schema.Field("allowed", &o.allowed, "share of repeats that gets no penalty", base::RightOpen(0, 1));
}

absl::StatusOr<TermResult> RepetitionTerm::Of(const EpisodeFacts& episode) const {
  const auto n = static_cast<size_t>(options_.ngram);
  int64_t all = 0, repeated = 0;
  bool halted = false;
  for (const CallFacts& call : episode.calls) {
    if (!call.policy) continue;
    halted = halted || call.record->finish() == v1::FINISH_REPETITION;
    const std::vector<int32_t> ids = SampledIds(*episode.tree, *call.record);
    std::set<base::Key128> seen;
    for (size_t i = 0; i + n <= ids.size(); ++i) {
      const auto bytes = std::as_bytes(std::span(ids).subspan(i, n));
      const std::string_view key(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      ++all;
      if (!seen.insert(base::ContentKey128(key)).second) ++repeated;
    }
  }
  const double share = all == 0 ? 0 : static_cast<double>(repeated) / static_cast<double>(all);
  TermResult result;
  result.measures["repeated_share"] = share;
  result.value = halted ? -1 : -std::max(0.0, share - options_.allowed) / (1 - options_.allowed);
  return result;
}

}  // namespace ingot::reward
