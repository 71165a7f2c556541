// Where a rendering finds what another wrote in the same loop (iteration_memo.h, iteration_run.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "text/jinja/template.h"

namespace ingot::text::jinja {

// Of one dict, or of a list of them, for every loop that goes over it. Thread safe. `Memo` has an atomic `used`.
template <typename Memo>
class LoopCache {
 public:
  // nullopt: nothing is to be kept for that loop; null: nothing is yet.
  std::optional<std::shared_ptr<const Memo>> Find(uint64_t loop) const ABSL_LOCKS_EXCLUDED(mu_) {
    base::MutexLock lock(mu_);
    for (const Entry& entry : entries_) {
      if (entry.loop != loop) continue;
      if (entry.memo == nullptr) return std::nullopt;
      return entry.memo;
    }
    return std::shared_ptr<const Memo>();
  }
  // In the place of what is kept for that loop; null: nothing, from now on. What is always replaced before it was used
  // is not kept any more either.
  void Keep(uint64_t loop, std::shared_ptr<const Memo> memo) ABSL_LOCKS_EXCLUDED(mu_) {
    base::MutexLock lock(mu_);
    auto entry = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& known) { return known.loop == loop; });
    if (entry == entries_.end()) {
      if (entries_.size() == kMaxLoops) entries_.erase(entries_.begin());
      entries_.push_back({loop, std::move(memo)});
      return;
    }
    if (entry->memo != nullptr) entry->unused = entry->memo->used ? 0 : entry->unused + 1;
    entry->memo = entry->unused < kMaxUnused ? std::move(memo) : nullptr;
  }

  // Begins with what another has kept.
  void TakeOver(const LoopCache& other) ABSL_LOCKS_EXCLUDED(mu_) {
    std::vector<Entry> entries;
    {
      base::MutexLock lock(other.mu_);
      entries = other.entries_;
    }
    std::erase_if(entries, [](const Entry& entry) { return entry.memo == nullptr; });
    base::MutexLock lock(mu_);
    entries_ = std::move(entries);
  }

 private:
  static constexpr int kMaxUnused = 3;    // memos in a row
  static constexpr size_t kMaxLoops = 8;  // of one item

  struct Entry {
    uint64_t loop;
    std::shared_ptr<const Memo> memo;  // null: nothing is to be kept
    int unused = 0;                    // memos in a row that were
  };
  mutable base::Mutex mu_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::text::jinja
