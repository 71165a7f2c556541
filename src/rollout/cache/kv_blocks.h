// Tracks which requests hold each KV cache block. Manages block ids, not memory. A block is free, held by one or more
// requests, or cached. A cached block is kept after its last holder releases it because a later prompt may begin with
// the same tokens.
//
//   salt 7 -- [t0..t15] -- [t16..t31] -- [t32..t47]      a cached block is identified by its salt, its parent block,
//                      \-- [t16'..t31']                  and its own tokens: a radix tree with one block per edge
//
// A token is an id with its content (contents.h). Blocks with equal ids but different contents have different names.
//
// Invariants:
//   1. The parent of a named (published) block is also named and exists at least as long. A block's holder also holds
//      all its ancestors, so only tree leaves are evicted.
//   2. A block without a holder is either free or named. Allocate uses free blocks first, and then the least recently
//      released named block.
//   3. Blocks with different salts are never shared. Each salt identifies one loaded set of weights.
//
// Not thread safe. Owned by the engine's step thread. Must outlive its Refs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "rollout/engine/contents.h"

namespace ingot::rollout {

class KvBlocks {
 public:
  KvBlocks(int32_t num_blocks, int32_t block_tokens);
  KvBlocks(const KvBlocks&) = delete;
  KvBlocks& operator=(const KvBlocks&) = delete;

  // Holds one block and releases it when destroyed. Release a prefix starting from its end (ReleaseAll) so that
  // eviction finds leaves first.
  class Ref {
   public:
    Ref() = default;
    Ref(Ref&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)), id_(std::exchange(other.id_, -1)) {}
    Ref& operator=(Ref&& other) noexcept {
      Ref taken(std::move(other));
      std::swap(owner_, taken.owner_);
      std::swap(id_, taken.id_);
      return *this;
    }
    ~Ref() {
      if (owner_ != nullptr) owner_->Unhold(id_);
    }
    int32_t id() const { return id_; }

   private:
    friend class KvBlocks;
    Ref(KvBlocks* owner, int32_t id) : owner_(owner), id_(id) {}
    KvBlocks* owner_ = nullptr;
    int32_t id_ = -1;
  };

  // Returns a private block, or nullopt if every block is held.
  std::optional<Ref> Allocate();

  // Holds the longest sequence of named blocks under `salt` that matches the beginning of `tokens` with these
  // `contents`.
  std::vector<Ref> Match(uint64_t salt, std::span<const int32_t> tokens, const Contents& contents = {});
  // Returns the number of blocks that Match would return.
  int32_t CountMatch(uint64_t salt, std::span<const int32_t> tokens, const Contents& contents = {}) const;

  // Names a full block so that other requests can share it. `parent` is the preceding block (null = this is the first
  // block), `tokens` has the block's block_tokens tokens, and `contents` is their Contents::KeyOf. If an equal block
  // already has a name, *block becomes that block and the duplicate is released. Returns false and changes nothing if
  // the parent is no longer named because `salt` was dropped.
  bool Publish(uint64_t salt, const Ref* parent, std::span<const int32_t> tokens, Ref* block,
               std::string_view contents = {});

  // Removes every name under `salt`. Blocks without a holder become free, and held blocks become private.
  void Drop(uint64_t salt);

  static void ReleaseAll(std::vector<Ref>& blocks) {
    while (!blocks.empty()) blocks.pop_back();
  }

  int32_t block_tokens() const { return block_tokens_; }
  int32_t total() const { return static_cast<int32_t>(blocks_.size()); }
  int32_t held() const { return held_; }
  int32_t available() const { return total() - held_; }  // free or cached
  int32_t cached() const { return evictable_count_; }    // named but not held
  bool IsNamed(int32_t id) const { return blocks_[id].named; }

  // Returns "" if the invariants hold, or else a description of the violated one. O(blocks). For tests.
  std::string CheckInvariants() const;

 private:
  struct Block {
    int32_t refs = 0;
    bool named = false;
    uint64_t salt = 0;
    int32_t parent = -1;
    int32_t children = 0;  // number of named blocks with this parent
    int32_t newer = -1;    // neighbors in the evictable list
    int32_t older = -1;
    std::string key;
  };

  Ref Hold(int32_t id);
  void Unhold(int32_t id);
  void Unname(int32_t id);
  bool Evict();
  void PushEvictable(int32_t id);
  void RemoveEvictable(int32_t id);
  static std::string Key(uint64_t salt, int32_t parent, std::span<const int32_t> tokens, std::string_view contents);
  // Returns the named block after `parent` whose tokens start at tokens[at]; -1 = none.
  int32_t Find(uint64_t salt, int32_t parent, std::span<const int32_t> tokens, size_t at,
               const Contents& contents) const;

  const int32_t block_tokens_;
  std::vector<Block> blocks_;
  std::vector<int32_t> free_;
  absl::flat_hash_map<std::string, int32_t> named_;
  int32_t held_ = 0;
  int32_t evictable_count_ = 0;
  int32_t oldest_ = -1;
  int32_t newest_ = -1;
};

}  // namespace ingot::rollout
