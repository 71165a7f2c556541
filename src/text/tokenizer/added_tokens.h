// Finds added tokens in text, which is the first step of tokenization. Takes the leftmost match, and the longest match
// at that position.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::text {

// An entry in tokenizer.json's added_tokens.
struct AddedTokenSpec {
  std::string content;
  int32_t id = 0;
  bool special = false;
  bool single_word = false;  // not matched next to a word character
  bool lstrip = false;       // includes preceding whitespace
  bool rstrip = false;       // includes following whitespace
  bool normalized = true;    // its normalized form is searched for in normalized text
};

// Searches for a set of strings together, using a trie. Immutable and thread safe.
class AddedTokenMatcher {
 public:
  struct Entry {
    std::string text;  // string to search for; not empty
    const AddedTokenSpec* token;
  };
  // If two entries have the same text, the last one is used. REQUIRES: the tokens outlive the matcher.
  explicit AddedTokenMatcher(const std::vector<Entry>& entries);

  // A part of the text: an added token including its whitespace, or (token == nullptr) the text between two tokens.
  struct Part {
    size_t begin;
    size_t end;
    const AddedTokenSpec* token;
  };
  // Returns all parts of `text` in order. REQUIRES: valid UTF-8.
  std::vector<Part> Find(std::string_view text) const;

  bool empty() const { return tokens_.empty(); }

 private:
  struct Node {
    uint32_t edges = 0;  // index of the first edge in edges_
    uint16_t count = 0;
    int32_t token = -1;  // index in tokens_ of the token that ends here; -1 = none
  };
  struct Edge {
    uint8_t byte;
    uint32_t node;
  };
  // Finds the longest entry at `text[at]`. Returns its index in tokens_ (-1 = none) and its end.
  int32_t Longest(std::string_view text, size_t at, size_t* end) const;
  void Add(std::string_view text, const AddedTokenSpec& token, size_t begin, size_t end, size_t& done,
           std::vector<Part>& parts) const;

  std::vector<Node> nodes_;
  std::vector<Edge> edges_;  // sorted by byte for each node
  std::vector<const AddedTokenSpec*> tokens_;
  std::array<uint32_t, 256> first_{};  // the root's edges by byte; 0 = none
  int only_first_byte_ = -1;           // first byte shared by all entries; -1 = they differ
};

}  // namespace ingot::text
