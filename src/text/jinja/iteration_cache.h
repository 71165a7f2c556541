// Where a rendering finds what another wrote for the same item of the same loop (iteration_memo.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.h"

namespace ingot::text::jinja {

struct IterationMemo;

// Of one dict, for every loop that goes over it. Thread safe.
class IterationCache {
 public:
  // `text_bytes`: about what the dict prints.
  explicit IterationCache(size_t text_bytes) : text_bytes_(text_bytes) {}

  size_t text_bytes() const { return text_bytes_; }
  // nullopt: nothing is to be kept for that loop; null: nothing is yet.
  std::optional<std::shared_ptr<const IterationMemo>> Find(uint64_t loop) const ABSL_LOCKS_EXCLUDED(mu_);
  // In the place of what is kept for that loop; null: nothing, from now on. What is always replaced before it was used
  // is not kept any more either.
  void Keep(uint64_t loop, std::shared_ptr<const IterationMemo> memo) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Entry {
    uint64_t loop;
    std::shared_ptr<const IterationMemo> memo;  // null: nothing is to be kept
    int unused = 0;                             // memos in a row that were
  };
  const size_t text_bytes_;
  mutable base::Mutex mu_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::text::jinja
