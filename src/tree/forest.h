// Merged prefix tries of calls, packed for training (DESIGN: the token tree, layout and equivalence).
//
//   calls of a micro-batch          trie on token ids             packed stream, DFS pre-order
//   a b c | d e                     a b c -+- d e                 index        0 1 2 3 4 5 6
//   a b c | d f          -->                  `- f        -->     token        a b c d e f g
//   a g                             a -- g                        visible_end  7 6 6 6 5 6 7
//                                                                 position     0 1 2 3 4 4 1
//
// Query i sees key j exactly when j <= i < visible_end[j]. Position ids are depth. Merging is on token ids alone: each
// call keeps its own labels (log-prob, temperature, version), so equal samples stay two entries of the loss.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "proto/tree.pb.h"
#include "tree/token_path.h"

namespace ingot::tree {

// A call as its path through the tree: what it saw, then what it sampled. Copies share the context.
struct CallPath {
  std::string call_id;
  int32_t episode = 0;  // caller's index of the episode within the batch
  int32_t group = 0;    // caller's index of the group within the batch
  float temperature = 1.0f;
  TokenPath context;             // bears no loss
  std::vector<int32_t> sampled;  // ids
  // One per sampled id:
  std::vector<float> logprobs;
  std::vector<int64_t> versions;
  std::vector<uint8_t> kv_mixed;

  int64_t size() const { return context.size() + std::ssize(sampled); }
  // All ids in one piece, context first: a copy.
  std::vector<int32_t> Tokens() const;
};

// The calls of an episode, in the tree's order. Contexts that begin with the same segments share them: time and memory
// are linear in the tree's tokens and the segments that its calls name. DATA_LOSS names the call and the segment that
// is missing or whose fields do not cover its ids.
absl::StatusOr<std::vector<CallPath>> CallPathsOf(const v1::EpisodeTree& tree, int32_t episode, int32_t group);

// A sampled token of one call: where its log-prob is read from in the packed stream.
struct LossEntry {
  int32_t row;     // packed index whose logits predict the token: the token's parent
  int32_t token;   // label
  int32_t call;    // index into the calls that were packed
  int32_t offset;  // which of the call's sampled tokens
};

struct PackedForest {
  std::vector<int32_t> token_ids;
  std::vector<int32_t> positions;  // depth
  std::vector<int32_t> visible_end;
  std::vector<LossEntry> entries;  // ordered by (call, offset)
  std::vector<int32_t>
      call_indices;             // which of the caller's calls are in here; entries' `call` indexes the caller's list
  int64_t unmerged_tokens = 0;  // what the calls hold together, before merging
  int64_t visible_pairs = 0;    // unmasked (query, key) pairs
  size_t size() const { return token_ids.size(); }
};

// Merges the calls (indices into `calls`) into tries and packs them. A call whose context is empty is INVALID_ARGUMENT:
// its first token has no row to be predicted from; so is more than int32 can count, merged. Children stand in order of
// first appearance in `indices`. Linear in the tokens that the calls' contexts do not share, and the runs that they do.
absl::StatusOr<PackedForest> PackForest(std::span<const CallPath> calls, std::span<const int32_t> indices);

}  // namespace ingot::tree
