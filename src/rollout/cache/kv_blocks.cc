#include "rollout/cache/kv_blocks.h"

#include <cassert>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace ingot::rollout {

KvBlocks::KvBlocks(int32_t num_blocks, int32_t block_tokens) : block_tokens_(block_tokens), blocks_(num_blocks) {
  free_.reserve(num_blocks);
  for (int32_t id = num_blocks - 1; id >= 0; --id) free_.push_back(id);
}

std::optional<KvBlocks::Ref> KvBlocks::Allocate() {
  if (free_.empty() && !Evict()) return std::nullopt;
  const int32_t id = free_.back();
  free_.pop_back();
  return Hold(id);
}

std::vector<KvBlocks::Ref> KvBlocks::Match(uint64_t salt, std::span<const int32_t> tokens, const Contents& contents) {
  std::vector<Ref> held;
  int32_t parent = -1;
  for (size_t at = 0; at + block_tokens_ <= tokens.size(); at += block_tokens_) {
    const int32_t id = Find(salt, parent, tokens, at, contents);
    if (id < 0) break;
    held.push_back(Hold(id));
    parent = id;
  }
  return held;
}

int32_t KvBlocks::CountMatch(uint64_t salt, std::span<const int32_t> tokens, const Contents& contents) const {
  int32_t count = 0;
  int32_t parent = -1;
  for (size_t at = 0; at + block_tokens_ <= tokens.size(); at += block_tokens_, ++count) {
    parent = Find(salt, parent, tokens, at, contents);
    if (parent < 0) break;
  }
  return count;
}

bool KvBlocks::Publish(uint64_t salt, const Ref* parent, std::span<const int32_t> tokens, Ref* block,
                       std::string_view contents) {
  assert(tokens.size() == static_cast<size_t>(block_tokens_));
  const int32_t parent_id = parent == nullptr ? -1 : parent->id();
  if (parent_id >= 0 && !(blocks_[parent_id].named && blocks_[parent_id].salt == salt)) return false;
  std::string key = Key(salt, parent_id, tokens, contents);
  if (const auto found = named_.find(key); found != named_.end()) {
    if (found->second != block->id()) *block = Hold(found->second);
    return true;
  }
  Block& named = blocks_[block->id()];
  assert(!named.named);
  named.named = true;
  named.salt = salt;
  named.parent = parent_id;
  named.key = key;
  if (parent_id >= 0) ++blocks_[parent_id].children;
  named_.emplace(std::move(key), block->id());
  return true;
}

void KvBlocks::Drop(uint64_t salt) {
  for (int32_t id = 0; id < total(); ++id) {
    Block& block = blocks_[id];
    if (!block.named || block.salt != salt) continue;
    if (block.refs == 0) RemoveEvictable(id);
    named_.erase(block.key);
    block.named = false;
    block.parent = -1;
    block.children = 0;
    block.key.clear();
    if (block.refs == 0) free_.push_back(id);
  }
}

KvBlocks::Ref KvBlocks::Hold(int32_t id) {
  Block& block = blocks_[id];
  if (block.refs++ == 0) {
    ++held_;
    if (block.named) RemoveEvictable(id);
  }
  return Ref(this, id);
}

void KvBlocks::Unhold(int32_t id) {
  Block& block = blocks_[id];
  assert(block.refs > 0);
  if (--block.refs > 0) return;
  --held_;
  if (block.named) {
    PushEvictable(id);
  } else {
    free_.push_back(id);
  }
}

void KvBlocks::Unname(int32_t id) {
  Block& block = blocks_[id];
  named_.erase(block.key);
  if (block.parent >= 0) --blocks_[block.parent].children;
  block.named = false;
  block.parent = -1;
  block.key.clear();
}

bool KvBlocks::Evict() {
  // The oldest block is a leaf if its prefix was released starting from the end. Otherwise, the loop maintains
  // invariant 1.
  int32_t id = oldest_;
  while (id >= 0 && blocks_[id].children > 0) id = blocks_[id].newer;
  if (id < 0) return false;
  RemoveEvictable(id);
  Unname(id);
  free_.push_back(id);
  return true;
}

void KvBlocks::PushEvictable(int32_t id) {
  blocks_[id].older = newest_;
  blocks_[id].newer = -1;
  (newest_ >= 0 ? blocks_[newest_].newer : oldest_) = id;
  newest_ = id;
  ++evictable_count_;
}

void KvBlocks::RemoveEvictable(int32_t id) {
  Block& block = blocks_[id];
  (block.older >= 0 ? blocks_[block.older].newer : oldest_) = block.newer;
  (block.newer >= 0 ? blocks_[block.newer].older : newest_) = block.older;
  block.older = block.newer = -1;
  --evictable_count_;
}

std::string KvBlocks::Key(uint64_t salt, int32_t parent, std::span<const int32_t> tokens, std::string_view contents) {
  std::string key(sizeof(salt) + sizeof(parent) + tokens.size_bytes(), '\0');
  std::memcpy(key.data(), &salt, sizeof(salt));
  std::memcpy(key.data() + sizeof(salt), &parent, sizeof(parent));
  std::memcpy(key.data() + sizeof(salt) + sizeof(parent), tokens.data(), tokens.size_bytes());
  key += contents;  // after a fixed number of tokens
  return key;
}

int32_t KvBlocks::Find(uint64_t salt, int32_t parent, std::span<const int32_t> tokens, size_t at,
                       const Contents& contents) const {
  const size_t count = static_cast<size_t>(block_tokens_);
  const auto found = named_.find(Key(salt, parent, tokens.subspan(at, count), contents.KeyOf(at, at + count)));
  return found == named_.end() ? -1 : found->second;
}

std::string KvBlocks::CheckInvariants() const {
  int32_t held = 0, evictable = 0, named = 0;
  std::vector<int32_t> children(blocks_.size(), 0);
  for (int32_t id = 0; id < total(); ++id) {
    const Block& block = blocks_[id];
    held += block.refs > 0;
    named += block.named;
    evictable += block.named && block.refs == 0;
    if (!block.named || block.parent < 0) continue;
    const Block& parent = blocks_[block.parent];
    ++children[block.parent];
    if (!parent.named || parent.salt != block.salt) return absl::StrCat("block ", id, ": its parent has no name");
    if (block.refs > 0 && parent.refs == 0) return absl::StrCat("block ", id, " is held, but its parent is not");
  }
  for (int32_t id = 0; id < total(); ++id) {
    if (blocks_[id].named && blocks_[id].children != children[id]) return absl::StrCat("block ", id, ": child count");
  }
  int32_t listed = 0;
  for (int32_t id = oldest_; id >= 0; id = blocks_[id].newer) ++listed;
  if (held != held_) return absl::StrCat("held is ", held_, ", but counted ", held);
  if (evictable != evictable_count_ || listed != evictable) return "the list of evictable blocks is wrong";
  if (named != static_cast<int32_t>(named_.size())) return "the name table is wrong";
  if (static_cast<int32_t>(free_.size()) + held + evictable != total()) {
    return absl::StrCat("blocks lost: ", free_.size(), " free, ", held, " held, ", evictable, " cached of ", total());
  }
  return "";
}

}  // namespace ingot::rollout
