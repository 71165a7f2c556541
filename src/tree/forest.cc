#include "tree/forest.h"

#include <algorithm>
#include <limits>

#include "tree/trie.h"

namespace ingot::tree {
namespace {

absl::Status CheckCall(const FlatCall& call) {
  const auto fault = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat("call ", call.call_id, ": ", what));
  };
  if (call.context_tokens < 1) return fault("its context is empty, so that its first token has no row to be read from");
  if (call.context_tokens > static_cast<int64_t>(call.tokens.size())) {
    return fault(absl::StrCat("its context has ", call.context_tokens, " of ", call.tokens.size(), " tokens"));
  }
  const size_t sampled = call.tokens.size() - call.context_tokens;
  if (call.logprobs.size() != sampled || call.versions.size() != sampled || call.kv_mixed.size() != sampled) {
    return fault(absl::StrCat("it sampled ", sampled, " tokens but has ", call.logprobs.size(), " log-probs, ",
                              call.versions.size(), " versions and ", call.kv_mixed.size(), " KV marks"));
  }
  if (std::any_of(call.tokens.begin(), call.tokens.end(), [](int32_t id) { return id < 0; })) {
    return fault("it has a negative token id");
  }
  return absl::OkStatus();
}

// `indices` in increasing order, checked.
absl::StatusOr<std::vector<int32_t>> CheckCalls(std::span<const FlatCall> calls, std::span<const int32_t> indices) {
  std::vector<int32_t> sorted(indices.begin(), indices.end());
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    return absl::InvalidArgumentError("a call is to be packed twice in one forest");
  }
  int64_t tokens = 0;
  for (const int32_t index : sorted) {
    if (index < 0 || index >= static_cast<int64_t>(calls.size())) {
      return absl::InvalidArgumentError(absl::StrCat("there is no call ", index, " of ", calls.size()));
    }
    INGOT_RETURN_IF_ERROR(CheckCall(calls[index]));
    tokens += static_cast<int64_t>(calls[index].tokens.size());
  }
  if (tokens > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a forest of ", tokens, " tokens is too large to index: use smaller micro-batches"));
  }
  return sorted;
}

// Lays the runs out in DFS pre-order. Returns each node's first packed index.
std::vector<int32_t> LayOut(const Trie& trie, PackedForest& forest) {
  const std::vector<int32_t> order = trie.PreOrder();
  std::vector<int32_t> starts(trie.size(), 0);
  for (const int32_t id : order) {
    const Trie::Node& node = trie.node(id);
    starts[id] = static_cast<int32_t>(forest.token_ids.size());
    forest.token_ids.insert(forest.token_ids.end(), node.tokens.begin(), node.tokens.end());
    for (int32_t depth = node.depth; depth < node.end_depth(); ++depth) forest.positions.push_back(depth);
  }
  // A run's tokens all end where its last descendant does. Children come after their parents in pre-order, so that
  // backwards each node's end is known before its parent's is raised to it.
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

// The entries of one call, whose path ends with node `leaf`. Walks up over what was sampled and no further.
void AppendEntries(const Trie& trie, const std::vector<int32_t>& starts, int32_t leaf, const FlatCall& call,
                   int32_t index, std::vector<LossEntry>& entries) {
  const auto length = static_cast<int32_t>(call.tokens.size());
  const size_t base = entries.size();
  const int32_t first_row = call.context_tokens - 1;  // in depth
  entries.resize(base + static_cast<size_t>(length - call.context_tokens));
  for (int32_t id = leaf;; id = trie.node(id).parent) {
    const Trie::Node& node = trie.node(id);
    const int32_t begin = std::max(node.depth, first_row);
    const int32_t end = std::min(node.end_depth(), length - 1);
    for (int32_t depth = begin; depth < end; ++depth) {
      const int32_t offset = depth - first_row;
      entries[base + offset] = {starts[id] + depth - node.depth, call.tokens[depth + 1], index, offset};
    }
    if (node.depth <= first_row) return;
  }
}

}  // namespace

absl::StatusOr<PackedForest> PackForest(std::span<const FlatCall> calls, std::span<const int32_t> indices) {
  INGOT_ASSIGN_OR_RETURN(const std::vector<int32_t> sorted, CheckCalls(calls, indices));
  Trie trie;
  std::vector<int32_t> leaves(indices.size());
  PackedForest forest;
  forest.call_indices.assign(indices.begin(), indices.end());
  for (size_t i = 0; i < indices.size(); ++i) {
    leaves[i] = trie.Insert(calls[indices[i]].tokens);
    forest.unmerged_tokens += static_cast<int64_t>(calls[indices[i]].tokens.size());
  }
  const std::vector<int32_t> starts = LayOut(trie, forest);
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
