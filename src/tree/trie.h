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
// Depth is bounded by memory alone (nothing recurses). Not thread safe. What is inserted must outlive the trie.
class Trie {
 public:
  struct Node {
    std::span<const int32_t> tokens;
    int32_t depth = 0;  // tokens before this node's first
    int32_t parent = -1;
    int32_t first_child = -1;  // children in order of first appearance
    int32_t last_child = -1;
    int32_t next_sibling = -1;
    int32_t previous_sibling = -1;
    int32_t end_depth() const { return depth + static_cast<int32_t>(tokens.size()); }
  };

  Trie() : nodes_(1) {}

  // The node at whose end the tokens end that stand behind those of node `at`. Linear in them.
  int32_t Insert(std::span<const int32_t> tokens, int32_t at = 0);
  // The same for a path from the root. Linear in those of its runs that no path before it had.
  int32_t Insert(const TokenPath& path);

  const Node& node(int32_t id) const { return nodes_[id]; }
  size_t size() const { return nodes_.size(); }
  int64_t tokens() const { return tokens_; }  // of all nodes

  // All nodes but the root, parents first, a node's descendants next to it.
  std::vector<int32_t> PreOrder() const;

 private:
  static uint64_t Edge(int32_t parent, int32_t token) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(parent)) << 32) | static_cast<uint32_t>(token);
  }
  int32_t Append(int32_t parent, std::span<const int32_t> tokens);
  // Puts a new node with the first `length` tokens of `id` above it; returns the new one.
  int32_t Split(int32_t id, int32_t length);

  std::vector<Node> nodes_;
  std::unordered_map<uint64_t, int32_t> children_;      // (parent, first token) -> child
  std::unordered_map<const void*, int32_t> path_ends_;  // TokenPath::key -> the node it ends with
  int64_t tokens_ = 0;
};

}  // namespace ingot::tree
