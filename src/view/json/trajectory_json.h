// Converts episodes, groups, and calls to JSON for the page. Text from models, agents, and tasks passes through
// SafeText. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "proto/tree.pb.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::view {

// Returns an episode's fields, excluding its calls.
base::json::object EpisodeJson(const v1::Episode& episode);

// Returns an episode, its calls, and its merged tree's nodes in pre-order. `advantages` has one entry per call; empty =
// unknown. Each node's text is truncated to `text_bytes` bytes. Returns the errors of tree::DescribeTree.
absl::StatusOr<base::json::object> EpisodeTreeJson(const v1::EpisodeTree& tree, const text::Tokenizer& tokenizer,
                                                   const std::vector<double>& advantages, size_t text_bytes);

// Returns one call's token path, which is its whole prompt and its sampled ids, as JSON:
//   {"text": [...], "id": [...],                    one of each per token; "" for a token that ends within a character
//    "runs": [{"count", "sampled", "call"}],        call: sequence number of the call that sampled the run; -1 = prompt
//                                                   "alternatives": how many each token has, if any are recorded
//    "logprob": [...],                              for the tokens of sampled runs, in order
//    "versions": [[version, count, mixed], ...],    for the same tokens
//    "alternative": ...}                            if any are recorded (alternatives_json.h)
// Returns DATA_LOSS if a segment or a parent call is missing. REQUIRES: 0 <= call < tree.calls_size().
absl::StatusOr<std::string> CallTokensJson(const v1::EpisodeTree& tree, int call,
                                           std::shared_ptr<const text::Tokenizer> tokenizer);

// Returns true if any segment or delivered message in the tree contains `wanted`, ignoring ASCII case.
bool ContainsText(const v1::EpisodeTree& tree, const text::Tokenizer& tokenizer, const std::string& wanted);

}  // namespace ingot::view
