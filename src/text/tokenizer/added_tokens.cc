#include "text/tokenizer/added_tokens.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "text/unicode/unicode.h"

namespace ingot::text {
namespace {

bool IsSpaceAt(std::string_view text, size_t at) { return (Unicode().FlagsOf(DecodeAt(text, at).value) & kSpace) != 0; }

bool TouchesWord(std::string_view text, size_t begin, size_t end) {
  if (begin > 0 && IsWordCharacter(DecodeAt(text, base::StartOf(text, begin - 1)).value)) return true;
  return end < text.size() && IsWordCharacter(DecodeAt(text, end).value);
}

struct TrieNode {
  std::map<uint8_t, uint32_t> next;
  int32_t token = -1;
};

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(const std::vector<Entry>& entries) {
  std::vector<TrieNode> trie(1);
  for (const Entry& entry : entries) {
    uint32_t node = 0;
    for (const char c : entry.text) {
      const auto [found, fresh] = trie[node].next.emplace(static_cast<uint8_t>(c), static_cast<uint32_t>(trie.size()));
      node = found->second;
      if (fresh) trie.emplace_back();
    }
    trie[node].token = static_cast<int32_t>(tokens_.size());
    tokens_.push_back(entry.token);
  }
  for (const TrieNode& trie_node : trie) {
    nodes_.push_back(
        {static_cast<uint32_t>(edges_.size()), static_cast<uint16_t>(trie_node.next.size()), trie_node.token});
    for (const auto& [byte, node] : trie_node.next) edges_.push_back({byte, node});
  }
  for (uint32_t i = 0; i < nodes_[0].count; ++i) first_[edges_[i].byte] = edges_[i].node;
  if (nodes_[0].count == 1) only_first_byte_ = edges_[0].byte;
}

int32_t AddedTokenMatcher::Longest(std::string_view text, size_t at, size_t* end) const {
  int32_t token = -1;
  uint32_t node = first_[static_cast<uint8_t>(text[at])];
  while (node != 0) {
    ++at;
    if (nodes_[node].token >= 0) {
      token = nodes_[node].token;
      *end = at;
    }
    if (at >= text.size()) break;
    const auto byte = static_cast<uint8_t>(text[at]);
    const Edge* edge = &edges_[nodes_[node].edges];
    const Edge* const last = edge + nodes_[node].count;
    if (last - edge > 8) {
      edge = std::lower_bound(edge, last, byte, [](const Edge& e, uint8_t b) { return e.byte < b; });
    } else {
      while (edge != last && edge->byte != byte) ++edge;
    }
    node = edge != last && edge->byte == byte ? edge->node : 0;
  }
  return token;
}

void AddedTokenMatcher::Add(std::string_view text, const AddedTokenSpec& token, size_t begin, size_t end, size_t& done,
                            std::vector<Part>& parts) const {
  if (token.single_word && TouchesWord(text, begin, end)) return;
  if (token.lstrip) {
    while (begin > done && IsSpaceAt(text, base::StartOf(text, begin - 1))) begin = base::StartOf(text, begin - 1);
    begin = std::max(begin, done);
  }
  if (token.rstrip) {
    while (end < text.size() && IsSpaceAt(text, end)) end += DecodeAt(text, end).size;
  }
  if (begin >= end) return;  // the previous token consumed this whitespace
  if (done < begin) parts.push_back({done, begin, nullptr});
  parts.push_back({begin, end, &token});
  done = end;
}

std::vector<AddedTokenMatcher::Part> AddedTokenMatcher::Find(std::string_view text) const {
  std::vector<Part> parts;
  size_t done = 0;
  size_t at = 0;
  while (!tokens_.empty() && at < text.size()) {
    if (only_first_byte_ >= 0) {
      const void* next = std::memchr(text.data() + at, only_first_byte_, text.size() - at);
      if (next == nullptr) break;
      at = static_cast<size_t>(static_cast<const char*>(next) - text.data());
    } else if (first_[static_cast<uint8_t>(text[at])] == 0) {
      ++at;
      continue;
    }
    size_t end = at;
    const int32_t token = Longest(text, at, &end);
    if (token < 0) {
      ++at;
      continue;
    }
    Add(text, *tokens_[token], at, end, done, parts);
    at = end;  // the next search begins here even if this match was rejected
  }
  if (done < text.size()) parts.push_back({done, text.size(), nullptr});
  return parts;
}

}  // namespace ingot::text
