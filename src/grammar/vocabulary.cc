#include "grammar/vocabulary.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace ingot::grammar {

Vocabulary::Vocabulary(std::vector<std::string> bytes, std::vector<bool> atomic)
    : bytes_(std::move(bytes)), atomic_(std::move(atomic)) {
  for (int32_t id = 0; id < size(); ++id) {
    if (bytes_[id].empty() || bytes_[id].size() > kMaxTokenBytes) continue;
    (atomic_[id] ? atoms_ : order_).push_back(id);
    longest_ = std::max(longest_, bytes_[id].size());
  }
  std::sort(atoms_.begin(), atoms_.end(), [&](int32_t a, int32_t b) {
    return bytes_[a].size() != bytes_[b].size() ? bytes_[a].size() > bytes_[b].size() : a < b;
  });
  std::sort(order_.begin(), order_.end(), [&](int32_t a, int32_t b) {
    const int order = bytes_[a].compare(bytes_[b]);
    return order != 0 ? order < 0 : a < b;
  });
  // The tokens are sorted. Each one continues the previous token's path as far as they agree.
  std::vector<uint32_t> path = {0};
  nodes_.push_back({0, 0, 0, 0});
  std::string_view before;
  const auto close = [&](size_t depth) {
    for (; path.size() > depth + 1; path.pop_back()) nodes_[path.back()].skip = static_cast<uint32_t>(nodes_.size());
  };
  for (size_t i = 0; i < order_.size(); ++i) {
    const std::string_view text = bytes_[order_[i]];
    const size_t most = std::min(text.size(), before.size());
    const size_t common = std::mismatch(text.begin(), text.begin() + most, before.begin()).first - text.begin();
    close(common);
    for (size_t at = common; at < text.size(); ++at) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({0, static_cast<uint32_t>(i), static_cast<uint8_t>(text[at]), static_cast<uint8_t>(at + 1)});
    }
    before = text;
  }
  close(0);
  nodes_[0].skip = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back({0, static_cast<uint32_t>(order_.size()), 0, 0});
}

int32_t Vocabulary::AtomAt(std::string_view text) const {
  for (const int32_t id : atoms_) {
    if (text.substr(0, bytes_[id].size()) == bytes_[id]) return id;
  }
  return -1;
}

bool TokenSet::contains(int32_t id) const {
  if (is_list()) return std::binary_search(list_.begin(), list_.end(), id);
  return static_cast<size_t>(id >> 6) < bits_.size() && (bits_[id >> 6] >> (id & 63) & 1) != 0;
}

void TokenSet::Builder::Add(const TokenSet& other) {
  for (const int32_t id : other.list_) Add(id);
  if (!other.bits_.empty() && words_.empty()) Spill();
  for (size_t i = 0; i < other.bits_.size(); ++i) words_[i] |= other.bits_[i];
}

void TokenSet::Builder::AddToFew(int32_t id) {
  few_.push_back(id);
  if (few_.size() > kMaxList) Spill();
}

void TokenSet::Builder::Spill() {
  words_.assign((static_cast<size_t>(vocab_size_) + 63) / 64, 0);
  for (const int32_t id : few_) words_[id >> 6] |= uint64_t{1} << (id & 63);
  few_.clear();
}

TokenSet TokenSet::Builder::Build() {
  TokenSet out;
  if (words_.empty()) {
    std::sort(few_.begin(), few_.end());
    few_.erase(std::unique(few_.begin(), few_.end()), few_.end());
    out.count_ = few_.size();
    out.list_ = std::move(few_);
    return out;
  }
  for (const uint64_t word : words_) out.count_ += static_cast<size_t>(std::popcount(word));
  if (out.count_ > kMaxList) {
    out.bits_ = std::move(words_);
    return out;
  }
  out.list_.reserve(out.count_);
  for (size_t i = 0; i < words_.size(); ++i) {
    for (uint64_t word = words_[i]; word != 0; word &= word - 1) {
      out.list_.push_back(static_cast<int32_t>(i * 64 + std::countr_zero(word)));
    }
  }
  return out;
}

}  // namespace ingot::grammar
