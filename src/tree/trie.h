// A path-compressed trie for token sequences. A node is a run of tokens with the same content (token_path.h). The
// sequences are referenced, not copied.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tree/token_path.h"

namespace ingot::tree {

// Invariants: (1) siblings begin with different ids or contents; (2) every inserted sequence ends where a node ends;
// (3) node ids for inserted sequences remain valid when later insertions split runs. Node 0 is the empty root.
//
// Depth is limited only by memory, because no function recurses. Not thread safe. Inserted tokens and paths must
// outlive the trie.
class Trie {
 public:
  struct Node {
    std::span<const int32_t> tokens;
    std::string_view content;  // content of each token; empty = text
    int32_t depth = 0;         // number of tokens before this node
    // Node ids; -1 = none.
    int32_t parent = -1;
    int32_t first_child = -1;  // children in order of first appearance
    int32_t last_child = -1;
    int32_t next_sibling = -1;
    int32_t previous_sibling = -1;
    int32_t end_depth() const { return depth + static_cast<int32_t>(tokens.size()); }
  };

  Trie() : nodes_(1) {}

  // Inserts the tokens below the end of node `at` and returns the node where they end. Linear in the tokens.
  int32_t Insert(std::span<const int32_t> text, int32_t at = 0) { return Insert(TokenRun{text}, at); }
  int32_t Insert(TokenRun run, int32_t at);
  // Inserts a path from the root. Linear in the tokens in runs that no earlier path shares.
  int32_t Insert(const TokenPath& path);

  const Node& node(int32_t id) const { return nodes_[id]; }
  size_t size() const { return nodes_.size(); }
  int64_t tokens() const { return tokens_; }  // in all nodes

  // Returns all nodes except the root, in DFS pre-order.
  std::vector<int32_t> PreOrder() const;

 private:
  // Identifies a child by its parent and its first token.
  struct Edge {
    int32_t parent, id;
    std::string_view content;
    bool operator==(const Edge&) const = default;
  };
  struct EdgeHash {
    size_t operator()(const Edge& edge) const {
      const uint64_t text =
          (static_cast<uint64_t>(static_cast<uint32_t>(edge.parent)) << 32) | static_cast<uint32_t>(edge.id);
      const size_t hash = std::hash<uint64_t>()(text);
      return edge.content.empty() ? hash : hash ^ std::hash<std::string_view>()(edge.content);
    }
  };
  int32_t Append(int32_t parent, TokenRun run);
  // Moves the first `length` tokens of `id` to a new node above it. Returns the new node.
  int32_t Split(int32_t id, int32_t length);

  std::vector<Node> nodes_;
  std::unordered_map<Edge, int32_t, EdgeHash> children_;
  std::unordered_map<const void*, int32_t> path_ends_;  // TokenPath::key -> the node where the path ends
  int64_t tokens_ = 0;
};

}  // namespace ingot::tree
