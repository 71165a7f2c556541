#include "tree/trie.h"

#include <algorithm>
#include <utility>

namespace ingot::tree {

int32_t Trie::Insert(TokenRun run, int32_t at) {
  while (!run.ids.empty()) {
    const auto edge = children_.find(Edge{at, run.ids[0], run.content});
    if (edge == children_.end()) return Append(at, run);
    const int32_t child = edge->second;
    const std::span<const int32_t> known = nodes_[child].tokens;
    const size_t most = std::min(known.size(), run.ids.size());
    const size_t shared = std::mismatch(known.begin(), known.begin() + most, run.ids.begin()).first - known.begin();
    run.ids = run.ids.subspan(shared);
    at = shared == known.size() ? child : Split(child, static_cast<int32_t>(shared));
  }
  return at;
}

int32_t Trie::Insert(const TokenPath& path) {
  int32_t at = 0;
  std::vector<std::pair<const void*, TokenRun>> further;  // runs after the known ones, last first
  path.VisitBack([&](const void* key, const TokenRun& run) {
    if (const auto known = path_ends_.find(key); known != path_ends_.end()) {
      at = known->second;
      return false;
    }
    further.emplace_back(key, run);
    return true;
  });
  for (auto run = further.rbegin(); run != further.rend(); ++run) at = path_ends_[run->first] = Insert(run->second, at);
  return at;
}

int32_t Trie::Append(int32_t parent, TokenRun run) {
  const auto id = static_cast<int32_t>(nodes_.size());
  tokens_ += static_cast<int64_t>(run.ids.size());
  Node& node = nodes_.emplace_back();
  node.tokens = run.ids;
  node.content = run.content;
  node.depth = nodes_[parent].end_depth();
  node.parent = parent;
  node.previous_sibling = nodes_[parent].last_child;
  if (node.previous_sibling >= 0) {
    nodes_[node.previous_sibling].next_sibling = id;
  } else {
    nodes_[parent].first_child = id;
  }
  nodes_[parent].last_child = id;
  children_[Edge{parent, run.ids[0], run.content}] = id;
  return id;
}

int32_t Trie::Split(int32_t id, int32_t length) {
  const auto upper = static_cast<int32_t>(nodes_.size());
  nodes_.push_back(nodes_[id]);  // takes the old node's place among its siblings
  Node& above = nodes_[upper];
  Node& below = nodes_[id];
  above.tokens = below.tokens.first(length);
  above.first_child = above.last_child = id;
  below.tokens = below.tokens.subspan(length);
  below.depth += length;
  below.parent = upper;
  below.next_sibling = below.previous_sibling = -1;
  if (above.previous_sibling >= 0) {
    nodes_[above.previous_sibling].next_sibling = upper;
  } else {
    nodes_[above.parent].first_child = upper;
  }
  if (above.next_sibling >= 0) {
    nodes_[above.next_sibling].previous_sibling = upper;
  } else {
    nodes_[above.parent].last_child = upper;
  }
  children_[Edge{above.parent, above.tokens[0], above.content}] = upper;
  children_[Edge{upper, below.tokens[0], below.content}] = id;
  return upper;
}

std::vector<int32_t> Trie::PreOrder() const {
  std::vector<int32_t> order;
  order.reserve(nodes_.size());
  int32_t at = nodes_[0].first_child;
  while (at > 0) {
    order.push_back(at);
    if (nodes_[at].first_child >= 0) {
      at = nodes_[at].first_child;
      continue;
    }
    while (at > 0 && nodes_[at].next_sibling < 0) at = nodes_[at].parent;
    if (at > 0) at = nodes_[at].next_sibling;
  }
  return order;
}

}  // namespace ingot::tree
