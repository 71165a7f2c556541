#include "tree/alternatives.h"

#include <algorithm>
#include <cstdio>

#include "base/checksum.h"
#include "base/printable.h"

namespace ingot::tree {
namespace {

std::string TokenText(int32_t id, double logprob, const DecodeFn& decode) {
  char digits[32];
  std::snprintf(digits, sizeof(digits), "%.3f", logprob);
  return absl::StrCat("\"", base::Printable(decode(std::span(&id, 1)), {.quoted = true}), "\" ", digits);
}

// Appends the segment's lines. `first` is its first token's index in the call.
void AppendLines(const v1::Segment& segment, int first, const DecodeFn& decode, std::string& out) {
  const int each = std::max(AlternativesPerId(segment), 0);
  for (int i = 0; i < std::min(segment.token_ids_size(), segment.logprobs_size()); ++i) {
    absl::StrAppend(&out, "  ", first + i, " ", TokenText(segment.token_ids(i), segment.logprobs(i), decode));
    for (int k = each * i; k < each * (i + 1); ++k) {
      const int32_t id = segment.alternative_ids(k);
      absl::StrAppend(&out, k == each * i ? "  of " : ", ", id == segment.token_ids(i) ? "*" : "",
                      TokenText(id, segment.alternative_logprobs(k), decode));
    }
    out += "\n";
  }
}

}  // namespace

int32_t AlternativesPerId(int ids, int alternative_ids, int alternative_logprobs) {
  if (alternative_ids != alternative_logprobs) return -1;
  if (ids == 0) return alternative_ids == 0 ? 0 : -1;
  return alternative_ids % ids == 0 ? alternative_ids / ids : -1;
}

int32_t AlternativesPerId(const v1::Segment& segment) {
  return AlternativesPerId(segment.token_ids_size(), segment.alternative_ids_size(),
                           segment.alternative_logprobs_size());
}

absl::StatusOr<std::string> RenderAlternatives(const v1::EpisodeTree& tree, const DecodeFn& decode) {
  std::string out;
  bool recorded = false;
  for (const v1::Call& call : tree.calls()) {
    absl::StrAppend(&out, "call ", call.sequence(), "\n");
    int first = 0;
    for (const std::string& key : call.sampled_keys()) {
      const auto found = tree.segments().find(base::Hex(key));
      if (found == tree.segments().end()) {
        return absl::DataLossError(absl::StrCat("a segment of call ", call.sequence(), " is missing"));
      }
      recorded = recorded || AlternativesPerId(found->second) > 0;
      AppendLines(found->second, first, decode, out);
      first += found->second.token_ids_size();
    }
  }
  if (recorded) return out;
  return std::string("no alternatives are recorded; set rollout.record_alternatives to record them in a run\n");
}

}  // namespace ingot::tree
