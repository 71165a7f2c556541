// Path-compressed trie of token sequences. A node is a run of tokens; the sequences are referenced, not copied.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "tree/token_path.h"

namespace ingot::tree {

// Invariants: (1) siblings begin with different tokens; (2) every inserted sequence ends where a node ends; (3) node
// ids of inserted sequences stay valid when later insertions split runs. Node 0 is the empty root.
//
// Depth is bounded by memory alone: no function recurses. Not thread safe. Inserted tokens and paths must outlive the
// trie.
class Trie {
 public:
  struct Node {
    std::span<const int32_t> tokens;
    int32_t depth = 0;  // tokens before this node's first
    // Node ids; -1 = none.
    int32_t parent = -1;
    int32_t first_child = -1;  // children in order of first appearance
    int32_t last_child = -1;
    int32_t next_sibling = -1;
    int32_t previous_sibling = -1;
    int32_t end_depth() const { return depth + static_cast<int32_t>(tokens.size()); }
  };

  Trie() : nodes_(1) {}

  // Inserts the tokens behind the end of node `at` and returns the node at whose end they end. Linear in the tokens.
  int32_t Insert(std::span<const int32_t> tokens, int32_t at = 0);
  // Inserts a path from the root. Linear in the tokens of the runs that no earlier path shared.
  int32_t Insert(const TokenPath& path);

  const Node& node(int32_t id) const { return nodes_[id]; }
  size_t size() const { return nodes_.size(); }
  int64_t tokens() const { return tokens_; }  // of all nodes

  // All nodes but the root, in DFS pre-order.
  std::vector<int32_t> PreOrder() const;

 private:
  static uint64_t Edge(int32_t parent, int32_t token) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(parent)) << 32) | static_cast<uint32_t>(token);
  }
  int32_t Append(int32_t parent, std::span<const int32_t> tokens);
  // Moves the first `length` tokens of `id` to a new node above it; returns the new node.
  int32_t Split(int32_t id, int32_t length);

  std::vector<Node> nodes_;
  std::unordered_map<uint64_t, int32_t> children_;      // (parent, first token) -> child
  std::unordered_map<const void*, int32_t> path_ends_;  // TokenPath::key -> the node at its end
  int64_t tokens_ = 0;
};

}  // namespace ingot::tree
