// Merges calls into prefix tries and packs them for training (docs/internals/architecture.md, "The token tree").
//
//   calls of a micro-batch          trie of tokens                packed stream, DFS pre-order
//   a b c | d e                     a b c -+- d e                 index        0 1 2 3 4 5 6
//   a b c | d f          -->                  `- f        -->     token        a b c d e f g
//   a g                             a -- g                        visible_end  7 6 6 6 5 6 7
//                                                                 position     0 1 2 3 4 4 1
//
// Query i sees key j if and only if j <= i < visible_end[j]. The position id of a token is its depth. Calls are merged
// only by token ids and contents (token_path.h). Each call keeps its own labels (log-prob, temperature, version), so
// two equal samples give two loss entries.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "proto/tree.pb.h"
#include "tree/token_path.h"

namespace ingot::tree {

// A call as its path through the tree: the ids of its prompt, then its sampled ids. Copies share the context.
struct CallPath {
  std::string call_id;
  int32_t episode = 0;  // index within the batch, set by the caller
  int32_t group = 0;    // index within the batch, set by the caller
  float temperature = 1.0f;
  TokenPath context;             // the full prompt; has no loss
  std::vector<int32_t> sampled;  // ids
  // One per sampled id:
  std::vector<float> logprobs;
  std::vector<int64_t> versions;
  std::vector<uint8_t> kv_mixed;
  // The experts used to sample each id (v1::Segment::routes), concatenated. Empty = not recorded.
  std::vector<uint16_t> routes;

  int64_t size() const { return context.size() + std::ssize(sampled); }
  // Returns a copy of all ids, context first.
  std::vector<int32_t> Tokens() const;
};

// Appends the experts encoded in `bytes` (v1::Segment::routes).
void AppendRoutes(std::string_view bytes, std::vector<uint16_t>& routes);

// Returns an episode's calls, in tree order. Contexts that begin with the same segments share memory. Time and memory
// are linear in the tree's tokens and in the segments that its calls reference. Returns DATA_LOSS, with the call and
// segment, if a segment is missing or has log-probs or versions that do not match its ids.
absl::StatusOr<std::vector<CallPath>> CallPathsOf(const v1::EpisodeTree& tree, int32_t episode, int32_t group);

// Returns the path of the call at `index`, as CallPathsOf would, with episode and group 0. Uses time and memory only
// for that call's context. Same errors as CallPathsOf. REQUIRES: 0 <= index < tree.calls_size().
absl::StatusOr<CallPath> CallPathOf(const v1::EpisodeTree& tree, int index);

// A sampled token in one call, and the row of the packed stream that predicts it.
struct LossEntry {
  int32_t row;     // packed index of the token's parent; its logits predict the token
  int32_t token;   // the label
  int32_t call;    // index into the caller's list of calls
  int32_t offset;  // index into CallPath::sampled
};

// Adjacent placeholders with the same content in the packed stream.
struct PackedContent {
  int32_t row, count;
  std::string content;
};

struct PackedForest {
  std::vector<int32_t> token_ids;
  std::vector<PackedContent> contents;  // in ascending order; all other rows are text
  std::vector<int32_t> positions;       // depth
  std::vector<int32_t> visible_end;
  std::vector<LossEntry> entries;     // ordered by (call, offset)
  std::vector<int32_t> call_indices;  // the packed calls, as indices into the caller's list
  std::vector<int32_t> call_ends;     // the row of each call's last token, in the order of call_indices
  int64_t unmerged_tokens = 0;        // over all calls, before merging
  int64_t visible_pairs = 0;          // unmasked (query, key) pairs
  size_t size() const { return token_ids.size(); }
};

// Merges the calls selected by `indices` into tries and packs them. Children are in order of first appearance in
// `indices`. Linear in the tokens that the calls' contexts do not share, and in the runs that they share. Returns
// INVALID_ARGUMENT if a call has an empty context, because no row would predict its first token, or if the number of
// merged tokens exceeds int32.
absl::StatusOr<PackedForest> PackForest(std::span<const CallPath> calls, std::span<const int32_t> indices);

}  // namespace ingot::tree
