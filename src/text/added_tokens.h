// The tokens that are found in a text before anything else is done to it: leftmost first, the longest at a place.
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
  bool single_word = false;  // not where a word character stands right before or after
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // ... and after it
  bool normalized = true;    // is looked for in normalised text, itself normalised
};

// A set of texts that are searched for together, by a trie. Immutable, thread safe.
class AddedTokenMatcher {
 public:
  struct Entry {
    std::string text;  // what is looked for; not empty
    const AddedTokenSpec* token;
  };
  // Of entries with equal texts the last one counts. REQUIRES: the tokens outlive the matcher.
  explicit AddedTokenMatcher(const std::vector<Entry>& entries);

  // The parts of a text, in order: tokens, and what stands between them (token == nullptr). A token that is taken with
  // white space around it covers that.
  struct Part {
    size_t begin;
    size_t end;
    const AddedTokenSpec* token;
  };
  // REQUIRES: valid UTF-8.
  std::vector<Part> Find(std::string_view text) const;

  bool empty() const { return tokens_.empty(); }

 private:
  struct Node {
    uint32_t edges = 0;  // where its edges begin in edges_
    uint16_t count = 0;
    int32_t token = -1;  // that ends here
  };
  struct Edge {
    uint8_t byte;
    uint32_t node;
  };
  // The longest entry that `text` has at `at`: its token, and its end.
  int32_t Longest(std::string_view text, size_t at, size_t* end) const;
  void Add(std::string_view text, const AddedTokenSpec& token, size_t begin, size_t end, size_t& done,
           std::vector<Part>& parts) const;

  std::vector<Node> nodes_;
  std::vector<Edge> edges_;  // of a node, sorted by byte
  std::vector<const AddedTokenSpec*> tokens_;
  std::array<uint32_t, 256> first_{};  // the root's edges: node, 0 for none
  int only_first_byte_ = -1;           // if all entries begin with it
};

}  // namespace ingot::text
