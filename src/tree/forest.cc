#include "tree/forest.h"

#include <algorithm>
#include <limits>

#include "tree/trie.h"

namespace ingot::tree {
namespace {

absl::Status CheckCall(const CallPath& call) {
  const auto fault = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat("call ", call.call_id, ": ", what));
  };
  if (call.context.empty()) return fault("its context is empty, so no row predicts its first token");
  if (call.size() > std::numeric_limits<int32_t>::max()) {
    return fault(absl::StrCat("its ", call.size(), " tokens are more than int32 can index"));
  }
  const size_t sampled = call.sampled.size();
  if (call.logprobs.size() != sampled || call.versions.size() != sampled || call.kv_mixed.size() != sampled) {
    return fault(absl::StrCat("it sampled ", sampled, " tokens but has ", call.logprobs.size(), " log-probs, ",
                              call.versions.size(), " versions and ", call.kv_mixed.size(), " KV marks"));
  }
  if (call.context.extremes().first < 0 ||
      std::any_of(call.sampled.begin(), call.sampled.end(), [](int32_t id) { return id < 0; })) {
    return fault("it has a negative token id");
  }
  return absl::OkStatus();
}

// Returns `indices` in ascending order. Returns INVALID_ARGUMENT if an index is out of range or appears twice.
absl::StatusOr<std::vector<int32_t>> CheckCalls(std::span<const CallPath> calls, std::span<const int32_t> indices) {
  std::vector<int32_t> sorted(indices.begin(), indices.end());
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    return absl::InvalidArgumentError("a call is listed twice for one forest");
  }
  for (const int32_t index : sorted) {
    if (index < 0 || index >= static_cast<int64_t>(calls.size())) {
      return absl::InvalidArgumentError(absl::StrCat("unknown call ", index, " of ", calls.size()));
    }
    INGOT_RETURN_IF_ERROR(CheckCall(calls[index]));
  }
  return sorted;
}

// Lays out the runs in DFS pre-order. Returns each node's first packed index.
std::vector<int32_t> LayOut(const Trie& trie, PackedForest& forest) {
  const std::vector<int32_t> order = trie.PreOrder();
  std::vector<int32_t> starts(trie.size(), 0);
  for (const int32_t id : order) {
    const Trie::Node& node = trie.node(id);
    starts[id] = static_cast<int32_t>(forest.token_ids.size());
    forest.token_ids.insert(forest.token_ids.end(), node.tokens.begin(), node.tokens.end());
    if (!node.content.empty()) {
      forest.contents.push_back({starts[id], static_cast<int32_t>(node.tokens.size()), std::string(node.content)});
    }
    for (int32_t depth = node.depth; depth < node.end_depth(); ++depth) forest.positions.push_back(depth);
  }
  // All tokens in a run are visible until the end of its last descendant. In reverse pre-order, a node's end is final
  // before its parent's end is raised to it.
  std::vector<int32_t> ends(trie.size(), 0);
  for (auto id = order.rbegin(); id != order.rend(); ++id) {
    const Trie::Node& node = trie.node(*id);
    ends[*id] = std::max(ends[*id], starts[*id] + static_cast<int32_t>(node.tokens.size()));
    ends[node.parent] = std::max(ends[node.parent], ends[*id]);
  }
  forest.visible_end.resize(forest.token_ids.size());
  for (const int32_t id : order) {
    const auto size = static_cast<int32_t>(trie.node(id).tokens.size());
    for (int32_t j = starts[id]; j < starts[id] + size; ++j) {
      forest.visible_end[j] = ends[id];
      forest.visible_pairs += ends[id] - j;
    }
  }
  return starts;
}

// Appends the entries for one call, which ends at node `leaf`. Walks up only over the sampled tokens.
void AppendEntries(const Trie& trie, const std::vector<int32_t>& starts, int32_t leaf, const CallPath& call,
                   int32_t index, std::vector<LossEntry>& entries) {
  const auto length = static_cast<int32_t>(call.size());
  const size_t base = entries.size();
  const auto first_row = static_cast<int32_t>(call.context.size()) - 1;  // as a depth
  entries.resize(base + call.sampled.size());
  for (int32_t id = leaf;; id = trie.node(id).parent) {
    const Trie::Node& node = trie.node(id);
    const int32_t begin = std::max(node.depth, first_row);
    const int32_t end = std::min(node.end_depth(), length - 1);
    for (int32_t depth = begin; depth < end; ++depth) {
      const int32_t offset = depth - first_row;
      entries[base + offset] = {starts[id] + depth - node.depth, call.sampled[offset], index, offset};
    }
    if (node.depth <= first_row) return;
  }
}

}  // namespace

absl::StatusOr<PackedForest> PackForest(std::span<const CallPath> calls, std::span<const int32_t> indices) {
  INGOT_ASSIGN_OR_RETURN(const std::vector<int32_t> sorted, CheckCalls(calls, indices));
  Trie trie;
  std::vector<int32_t> leaves(indices.size());
  PackedForest forest;
  forest.call_indices.assign(indices.begin(), indices.end());
  for (size_t i = 0; i < indices.size(); ++i) {
    const CallPath& call = calls[indices[i]];
    leaves[i] = trie.Insert(call.sampled, trie.Insert(call.context));
    forest.unmerged_tokens += call.size();
    if (trie.tokens() > std::numeric_limits<int32_t>::max()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the calls up to ", call.call_id, " merge to ", trie.tokens(),
                       " tokens, more than int32 can index: use fewer groups per step or more ranks"));
    }
  }
  const std::vector<int32_t> starts = LayOut(trie, forest);
  for (size_t i = 0; i < indices.size(); ++i) {
    const auto last = static_cast<int32_t>(calls[indices[i]].size()) - 1;  // its depth
    forest.call_ends.push_back(starts[leaves[i]] + last - trie.node(leaves[i]).depth);
  }
  std::vector<int32_t> by_index(indices.size());
  for (size_t i = 0; i < indices.size(); ++i) {
    by_index[std::lower_bound(sorted.begin(), sorted.end(), indices[i]) - sorted.begin()] = leaves[i];
  }
  for (size_t i = 0; i < sorted.size(); ++i) {
    AppendEntries(trie, starts, by_index[i], calls[sorted[i]], sorted[i], forest.entries);
  }
  return forest;
}

}  // namespace ingot::tree
