// Memory for a chunk's planes between an engine's blocks and a store.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "kv/chunk.h"
#include "rollout/cache/kv_blocks.h"
#include "rollout/cache/store_roots.h"

namespace ingot::rollout {

class ChunkBuffer {
 public:
  explicit ChunkBuffer(StoreRootPtr root)
      : root_(std::move(root)),
        bytes_(std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(root_->chunk_bytes))) {}

  // The planes' memory for the store.
  kv::PlanesToRead ToRead() const { return Planes<kv::PlanesToRead>(); }
  kv::PlanesToWrite ToWrite() const { return Planes<kv::PlanesToWrite>(); }

  // Copy between this buffer and the chunk's blocks, on the step thread. REQUIRES: blocks_per_chunk blocks.
  void CopyFrom(std::span<const KvBlocks::Ref> blocks) {
    ForBlocks([&](std::byte* own, std::span<std::byte> page) { std::memcpy(own, page.data(), page.size()); }, blocks);
  }
  void CopyTo(std::span<const KvBlocks::Ref> blocks) const {
    ForBlocks([&](std::byte* own, std::span<std::byte> page) { std::memcpy(page.data(), own, page.size()); }, blocks);
  }

 private:
  template <typename Result>
  Result Planes() const {
    Result planes;
    std::byte* at = bytes_.get();
    for (const int64_t size : root_->root.plane_bytes) {
      planes.push_back({{at, static_cast<size_t>(size)}});
      at += size;
    }
    return planes;
  }

  // Calls `copy` with this buffer's place and the page of each block, plane by plane.
  template <typename Copy>
  void ForBlocks(const Copy& copy, std::span<const KvBlocks::Ref> blocks) const {
    std::byte* at = bytes_.get();
    for (size_t plane = 0; plane < root_->root.plane_bytes.size(); ++plane) {
      for (const KvBlocks::Ref& block : blocks) {
        const std::span<std::byte> page = root_->pages->Block(plane, block.id());
        copy(at, page);
        at += page.size();
      }
    }
  }

  StoreRootPtr root_;
  std::unique_ptr<std::byte[]> bytes_;
};

}  // namespace ingot::rollout
