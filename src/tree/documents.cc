#include "tree/documents.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <unordered_map>

#include "tree/cut.h"
#include "tree/trie.h"

namespace ingot::tree {

std::vector<std::vector<int32_t>> SeparateCalls(std::span<const CallPath> calls) {
  std::vector<std::vector<int32_t>> documents;
  for (const int32_t call : OrderChainFirst(calls)) documents.push_back({call});
  return documents;
}

std::vector<std::vector<int32_t>> ChainedCalls(std::span<const CallPath> calls) {
  Trie trie;
  std::unordered_map<int32_t, std::vector<int32_t>> ending;  // node -> calls that end there
  for (const int32_t call : OrderChainFirst(calls)) {
    const CallPath& path = calls[static_cast<size_t>(call)];
    ending[trie.Insert(path.sampled, trie.Insert(path.context))].push_back(call);
  }
  std::vector<std::vector<int32_t>> documents;
  std::vector<int32_t> pending;  // calls that end on the path to the next leaf
  for (const int32_t id : trie.PreOrder()) {
    if (const auto found = ending.find(id); found != ending.end()) {
      pending.insert(pending.end(), found->second.begin(), found->second.end());
    }
    if (trie.node(id).first_child < 0) documents.push_back(std::exchange(pending, {}));
  }
  return documents;
}

absl::StatusOr<PackedForest> PackDocuments(std::span<const CallPath> calls,
                                           std::span<const std::vector<int32_t>> documents) {
  PackedForest all;
  for (const std::vector<int32_t>& document : documents) {
    INGOT_ASSIGN_OR_RETURN(const PackedForest one, PackForest(calls, document));
    if (all.size() + one.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
      return absl::InvalidArgumentError(
          absl::StrCat(documents.size(), " documents have more tokens than int32 can index: pack fewer documents"));
    }
    const auto offset = static_cast<int32_t>(all.size());
    all.token_ids.insert(all.token_ids.end(), one.token_ids.begin(), one.token_ids.end());
    for (PackedContent run : one.contents) {
      run.row += offset;
      all.contents.push_back(std::move(run));
    }
    all.positions.insert(all.positions.end(), one.positions.begin(), one.positions.end());
    for (const int32_t end : one.visible_end) all.visible_end.push_back(end + offset);
    for (LossEntry entry : one.entries) {
      entry.row += offset;
      all.entries.push_back(entry);
    }
    all.call_indices.insert(all.call_indices.end(), one.call_indices.begin(), one.call_indices.end());
    all.unmerged_tokens += one.unmerged_tokens;
    all.visible_pairs += one.visible_pairs;
  }
  std::sort(all.entries.begin(), all.entries.end(), [](const LossEntry& a, const LossEntry& b) {
    return std::tie(a.call, a.offset) < std::tie(b.call, b.offset);
  });
  return all;
}

}  // namespace ingot::tree
