// Episodes, groups and calls as JSON for the page. Text from models, agents and tasks is SafeText. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "proto/tree.pb.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::view {

// The fields of an episode without its calls.
base::json::object EpisodeJson(const v1::Episode& episode);

// An episode with its calls and the nodes of its merged tree, in pre-order. `advantages`: one per call; empty = not known.
// A node's text is cut to `text_bytes` bytes. DATA_LOSS: as in tree::DescribeTree.
absl::StatusOr<base::json::object> EpisodeTreeJson(const v1::EpisodeTree& tree, const text::Tokenizer& tokenizer,
                                                   const std::vector<double>& advantages, size_t text_bytes);

// The token path of one call, its whole prompt and its sampled ids, as printed JSON:
//   {"text": [...], "id": [...],                    one of each per token; a token that ends within a character has ""
//    "runs": [{"count", "sampled", "call"}],        call: the sequence of the call that sampled the run, -1 of a prompt
//    "logprob": [...],                              of the tokens of sampled runs, in order
//    "versions": [[version, count, mixed], ...]}    of the same tokens
// DATA_LOSS: a segment or a parent call is missing. REQUIRES: 0 <= call < tree.calls_size().
absl::StatusOr<std::string> CallTokensJson(const v1::EpisodeTree& tree, int call,
                                           std::shared_ptr<const text::Tokenizer> tokenizer);

// Whether a segment's text or a delivered message of the tree contains `wanted`, ignoring ASCII case.
bool ContainsText(const v1::EpisodeTree& tree, const text::Tokenizer& tokenizer, const std::string& wanted);

}  // namespace ingot::view
