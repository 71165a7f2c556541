#include "kernels/scratch.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <vector>

namespace ingot::kernels::tiles {
namespace {

constexpr size_t kLine = 64;
// A thread keeps blocks of at most kLargest bytes, and kMax bytes in total. With a sanitizer, it keeps none, so that
// the sanitizer sees each block separately.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kLargest = 0;
#else
constexpr size_t kLargest = size_t{4} << 20;
#endif
constexpr size_t kMax = size_t{8} << 20, kMaxBlocks = 64;

struct KeptBlocks {
  struct Block {
    std::byte* data;
    size_t bytes;
  };
  ~KeptBlocks() {
    for (const Block& block : blocks) std::free(block.data);
    gone = true;
  }
  std::vector<Block> blocks;
  size_t bytes = 0;
  inline static thread_local bool gone = false;  // the thread is exiting and does not keep blocks
};
thread_local KeptBlocks kept;

}  // namespace

ScratchBlock TakeScratch(size_t bytes) {
  bytes = std::max(kLine, (bytes + kLine - 1) / kLine * kLine);
  if (!KeptBlocks::gone) {
    kept.blocks.reserve(kMaxBlocks);  // returning a block must not fail
    // Takes the smallest block that is large enough, unless it is far too large.
    auto best = kept.blocks.end();
    for (auto it = kept.blocks.begin(); it != kept.blocks.end(); ++it) {
      if (it->bytes >= bytes && it->bytes <= 2 * bytes && (best == kept.blocks.end() || it->bytes < best->bytes)) {
        best = it;
      }
    }
    if (best != kept.blocks.end()) {
      const KeptBlocks::Block block = *best;
      *best = kept.blocks.back();
      kept.blocks.pop_back();
      kept.bytes -= block.bytes;
      return ScratchBlock(block.data, {block.bytes});
    }
  }
  auto* const data = static_cast<std::byte*>(std::aligned_alloc(kLine, bytes));
  if (data == nullptr) throw std::bad_alloc();
  return ScratchBlock(data, {bytes});
}

void GiveScratchBack::operator()(std::byte* block) const {
  if (KeptBlocks::gone || bytes > kLargest || kept.blocks.size() == kept.blocks.capacity()) return std::free(block);
  kept.blocks.push_back({block, bytes});
  kept.bytes += bytes;
  while (kept.bytes > kMax) {  // the oldest first
    kept.bytes -= kept.blocks.front().bytes;
    std::free(kept.blocks.front().data);
    kept.blocks.erase(kept.blocks.begin());
  }
}

}  // namespace ingot::kernels::tiles
