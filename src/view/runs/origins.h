// Determines how an episode's branches began, if the record shows it. Clients rarely report that they start a sub-agent
// or continue from a summary. In both cases, a new conversation quotes an earlier answer. Pure function.
#pragma once

#include <vector>

#include "proto/tree.pb.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::view {

enum class OriginKind { kNone, kSummary, kSubAgent };

struct Origin {
  OriginKind kind = OriginKind::kNone;
  int call = -1;  // sequence number of the call whose answer the prompt quotes; -1 = unknown
};

// Returns one entry per call in `tree`. kNone = the call does not begin a branch, or the record does not show how.
// 1. A call that begins a thread with a parent thread (Call.parent_branch) belongs to a sub-agent.
// 2. A call that begins a conversation and quotes a string argument of an earlier tool call belongs to a sub-agent.
// 3. A call that begins a conversation and quotes text from an earlier answer continues from a summary.
//
// A quote is an entire argument or the longest line in an answer. It has at least kMinQuote bytes and is not in the
// earlier call's own prompt. Only the previous kMaxEarlier calls are checked, newest first.
std::vector<Origin> OriginsOf(const v1::EpisodeTree& tree, const text::Tokenizer& tokenizer);

inline constexpr size_t kMinQuote = 12;
inline constexpr int kMaxEarlier = 64;  // limits the time needed to open an episode with many conversations

}  // namespace ingot::view
