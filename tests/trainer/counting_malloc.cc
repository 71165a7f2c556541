#include "counting_malloc.h"

#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define INGOT_COUNTS 0
#else
#define INGOT_COUNTS 1
#endif

namespace ingot::testing {
namespace {

std::atomic<int64_t> live{0}, peak{0};

}  // namespace

int64_t LiveBytes() { return live.load(); }
int64_t PeakLiveBytes() { return peak.load(); }
void ResetPeakLive() { peak = live.load(); }
bool CountsMalloc() { return INGOT_COUNTS != 0; }

#if INGOT_COUNTS
namespace {

void* Counted(void* block) {
  if (block == nullptr) return block;
  const auto bytes = static_cast<int64_t>(malloc_usable_size(block));
  const int64_t now = live.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  for (int64_t most = peak.load(std::memory_order_relaxed);
       most < now && !peak.compare_exchange_weak(most, now, std::memory_order_relaxed);) {
  }
  return block;
}

void Uncount(void* block) {
  if (block != nullptr) live.fetch_sub(static_cast<int64_t>(malloc_usable_size(block)), std::memory_order_relaxed);
}

}  // namespace
#endif

}  // namespace ingot::testing

#if INGOT_COUNTS
// glibc's own functions, under the names that it exports for this purpose.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* block, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* block);

void* malloc(size_t bytes) { return ingot::testing::Counted(__libc_malloc(bytes)); }
void* calloc(size_t count, size_t bytes) { return ingot::testing::Counted(__libc_calloc(count, bytes)); }
void* realloc(void* block, size_t bytes) {
  ingot::testing::Uncount(block);
  void* moved = __libc_realloc(block, bytes);
  ingot::testing::Counted(moved != nullptr || bytes == 0 ? moved : block);  // if there is no memory, the block stays
  return moved;
}
void* memalign(size_t alignment, size_t bytes) { return ingot::testing::Counted(__libc_memalign(alignment, bytes)); }
void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** block, size_t alignment, size_t bytes) {
  void* made = memalign(alignment, bytes);
  if (made == nullptr) return ENOMEM;
  *block = made;
  return 0;
}
void free(void* block) {
  ingot::testing::Uncount(block);
  __libc_free(block);
}
}
#endif
