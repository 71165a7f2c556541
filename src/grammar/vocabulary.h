// Stores the bytes of every token as a trie in depth-first order. Masks are computed by walking the trie.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::grammar {

// Immutable and thread safe. Uses about 20 bytes per byte of distinct token text.
class Vocabulary {
 public:
  // Longer tokens are never sampled with a grammar.
  static constexpr size_t kMaxTokenBytes = 250;

  // bytes[id] is the token's text; empty = never sampled with a grammar (unused, or padding in the model's head).
  // atomic[id] = the token is indivisible, such as <tool_call>. It is consumed as a whole, either where a literal
  // spells it or in free text, and is never part of anything else. REQUIRES: equal sizes.
  Vocabulary(std::vector<std::string> bytes, std::vector<bool> atomic);

  int32_t size() const { return static_cast<int32_t>(bytes_.size()); }
  const std::string& bytes(int32_t id) const { return bytes_[id]; }
  bool atomic(int32_t id) const { return atomic_[id]; }
  size_t longest() const { return longest_; }

  // A node of the trie. Node 0 is the root. The children of node i are i + 1, skip[i + 1], skip[skip[i + 1]], and so
  // on, while they are below skip[i].
  struct Node {
    uint32_t skip;         // first node after this subtree
    uint32_t first_token;  // tokens that end here: order[first_token .. first_token of the next node)
    uint8_t byte;
    uint8_t depth;  // number of bytes from the root
  };
  std::span<const Node> nodes() const { return nodes_; }  // ends with a sentinel for the last node's first_token
  size_t node_count() const { return nodes_.size() - 1; }
  std::span<const int32_t> TokensAt(uint32_t node) const {
    return std::span(order_).subspan(nodes_[node].first_token, nodes_[node + 1].first_token - nodes_[node].first_token);
  }

  std::span<const int32_t> atoms() const { return atoms_; }
  // Returns the longest atomic token at the beginning of `text`, or -1 if there is none.
  int32_t AtomAt(std::string_view text) const;

 private:
  std::vector<std::string> bytes_;
  std::vector<bool> atomic_;
  std::vector<int32_t> atoms_;  // longest first
  std::vector<Node> nodes_;
  std::vector<int32_t> order_;  // all other tokens, sorted by text
  size_t longest_ = 0;
};

// A set of token ids. Small sets are sorted lists, and larger ones are bitmaps.
class TokenSet {
 public:
  static constexpr size_t kMaxList = 1024;

  bool is_list() const { return bits_.empty(); }
  std::span<const int32_t> list() const { return list_; }   // ascending; empty unless is_list()
  std::span<const uint64_t> bits() const { return bits_; }  // bit id % 64 of word id / 64; empty if is_list()
  size_t count() const { return count_; }
  bool contains(int32_t id) const;
  size_t memory_bytes() const { return list_.size() * sizeof(int32_t) + bits_.size() * sizeof(uint64_t) + 64; }

  // Collects ids in any order. Duplicates are allowed.
  class Builder {
   public:
    explicit Builder(int32_t vocab_size) : vocab_size_(vocab_size) {}
    // A performance hint that about `ids` ids will be added.
    void Expect(size_t ids) {
      if (ids > kMaxList && words_.empty()) Spill();
    }
    void Add(int32_t id) {
      if (words_.empty()) return AddToFew(id);
      words_[id >> 6] |= uint64_t{1} << (id & 63);
    }
    void Add(const TokenSet& other);
    TokenSet Build();

   private:
    void AddToFew(int32_t id);
    void Spill();

    const int32_t vocab_size_;
    std::vector<int32_t> few_;  // used until its size exceeds kMaxList
    std::vector<uint64_t> words_;
  };

 private:
  std::vector<int32_t> list_;
  std::vector<uint64_t> bits_;
  size_t count_ = 0;
};

}  // namespace ingot::grammar
