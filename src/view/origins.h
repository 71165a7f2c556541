// How the branches of an episode began, as far as the record shows. A client seldom says that it starts a sub-agent or
// continues from a summary; both begin a conversation that quotes an earlier answer. Pure.
#pragma once

#include <vector>

#include "proto/tree.pb.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::view {

enum class OriginKind { kNone, kSummary, kSubAgent };

struct Origin {
  OriginKind kind = OriginKind::kNone;
  int call = -1;  // sequence of the call whose answer the prompt quotes; -1 = unknown
};

// One per call of `tree`; kNone = the call does not begin a branch, or the record does not show how.
//   1. A call that begins a thread with a parent thread (Call.parent_branch) is a sub-agent's.
//   2. A call that begins a conversation and quotes a text argument of an earlier tool call is a sub-agent's.
//   3. A call that begins a conversation and quotes the text of an earlier answer continues from a summary.
// A quote is a whole argument, or the longest line of an answer, of at least kLeastQuote bytes, that the earlier call's own
// prompt does not have. Only the previous kMostEarlier calls are checked, the newest first.
std::vector<Origin> OriginsOf(const v1::EpisodeTree& tree, const text::Tokenizer& tokenizer);

inline constexpr size_t kLeastQuote = 12;
inline constexpr int kMostEarlier = 64;  // so that an episode with many conversations opens quickly

}  // namespace ingot::view
