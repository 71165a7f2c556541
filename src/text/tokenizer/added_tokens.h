// Finds added tokens in a text, before any other step of tokenizing: leftmost first, and the longest at each place.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::text {

// An entry of tokenizer.json's added_tokens.
struct AddedTokenSpec {
  std::string content;
  int32_t id = 0;
  bool special = false;
  bool single_word = false;  // not matched next to a word character
  bool lstrip = false;       // also takes the white space before it
  bool rstrip = false;       // also takes the white space after it
  bool normalized = true;    // searched for in normalised text, in its own normalised form
};

// A set of texts, found together with a trie. Immutable, thread safe.
class AddedTokenMatcher {
 public:
  struct Entry {
    std::string text;  // the text to search for; not empty
    const AddedTokenSpec* token;
  };
  // If two entries have the same text, the last entry counts. REQUIRES: the tokens outlive the matcher.
  explicit AddedTokenMatcher(const std::vector<Entry>& entries);

  // A part of a text: an added token with the white space that it takes along, or (token == nullptr) the text between
  // two tokens.
  struct Part {
    size_t begin;
    size_t end;
    const AddedTokenSpec* token;
  };
  // All parts of `text`, in order. REQUIRES: valid UTF-8.
  std::vector<Part> Find(std::string_view text) const;

  bool empty() const { return tokens_.empty(); }

 private:
  struct Node {
    uint32_t edges = 0;  // index of its first edge in edges_
    uint16_t count = 0;
    int32_t token = -1;  // index in tokens_ of the token that ends here; -1 = none
  };
  struct Edge {
    uint8_t byte;
    uint32_t node;
  };
  // The longest entry at `text[at]`: its index in tokens_ (-1 = none) and its end.
  int32_t Longest(std::string_view text, size_t at, size_t* end) const;
  void Add(std::string_view text, const AddedTokenSpec& token, size_t begin, size_t end, size_t& done,
           std::vector<Part>& parts) const;

  std::vector<Node> nodes_;
  std::vector<Edge> edges_;  // the edges of a node are sorted by byte
  std::vector<const AddedTokenSpec*> tokens_;
  std::array<uint32_t, 256> first_{};  // the root's edges by byte: the node, 0 = none
  int only_first_byte_ = -1;           // the first byte that all entries share; -1 = they differ
};

}  // namespace ingot::text
