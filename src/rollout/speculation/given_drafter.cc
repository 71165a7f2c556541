#include "rollout/speculation/given_drafter.h"

#include <algorithm>

#include "rollout/engine/sequence.h"

namespace ingot::rollout {
namespace {

// Ids from the same version are always accepted. Ids from another version often are, until the first difference.
constexpr double kExpected = 0.98;

// Returns the rest of `ids`, whose first one is the request's id with index `first`.
std::span<const int32_t> RestOf(const std::vector<int32_t>& ids, int64_t index) {
  return std::span(ids).subspan(std::min(ids.size(), static_cast<size_t>(index)));
}

}  // namespace

void GivenDrafter::Propose(std::span<const Ask> asks) {
  for (const Ask& ask : asks) {
    const Sequence& sequence = *ask.sequence;
    const bool forced = !sequence.forced_ids.empty();
    const std::span<const int32_t> rest = forced
                                              ? RestOf(sequence.forced_ids, sequence.sampled())
                                              : RestOf(sequence.draft_ids, sequence.sampled() - sequence.first_index);
    const auto ids = rest.first(std::min(rest.size(), ask.most));
    ask.draft->ids.assign(ids.begin(), ids.end());
    ask.draft->acceptance = forced ? 1 : kExpected;
  }
}

}  // namespace ingot::rollout
