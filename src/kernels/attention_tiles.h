// What the forward and the backward pass of CPU attention share: tile visibility, scratch and the sharing of work.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/attention.h"
#include "kernels/inner.h"

namespace ingot::kernels::tiles {

static_assert(kKeyTile == inner::kTile);
inline constexpr int64_t kRowsPerTile = 64;  // rows (queries x heads of a group) of a query tile, if the group allows

inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

enum class Visibility { kNone, kSome, kAll };

// Least and greatest visible_end of each key tile of a sequence.
class TileBounds {
 public:
  TileBounds(const int32_t* visible_end, int64_t keys) : keys_(keys) {
    if (visible_end == nullptr) return;
    for (int64_t k0 = 0; k0 < keys; k0 += kKeyTile) {
      const auto [low, high] = std::minmax_element(visible_end + k0, visible_end + std::min(keys, k0 + kKeyTile));
      bounds_.push_back({*low, *high});
    }
  }

  // Queries [q0, q1) against key tile `tile`.
  Visibility Of(int64_t q0, int64_t q1, int64_t tile) const {
    const int64_t k0 = tile * kKeyTile, k1 = std::min(keys_, k0 + kKeyTile);
    if (k0 >= q1 || (!bounds_.empty() && bounds_[tile].high <= q0)) return Visibility::kNone;
    const bool all = k1 - 1 <= q0 && (bounds_.empty() || bounds_[tile].low >= q1);
    return all ? Visibility::kAll : Visibility::kSome;
  }

 private:
  struct Bounds {
    int32_t low, high;
  };
  int64_t keys_;
  std::vector<Bounds> bounds_;  // empty: plain causal
};

// Hands items 0..count-1 in order to whatever threads `parallel` brings, each taking the next when it is done with one.
// make_worker() is called once per thread and returns a callable of the item.
template <typename MakeWorker>
void ShareOut(const ParallelFor& parallel, int64_t count, double flops, const MakeWorker& make_worker) {
  std::atomic<int64_t> next{0};
  const auto work = [&](int64_t, int64_t) {
    if (next.load(std::memory_order_relaxed) >= count) return;
    auto worker = make_worker();
    for (int64_t item; (item = next.fetch_add(1, std::memory_order_relaxed)) < count;) worker(item);
  };
  constexpr double kWorthThreads = 2e5;  // below it, waking a thread costs more than it does
  if (count <= 1 || flops < kWorthThreads) {
    work(0, count);
  } else {
    parallel(count, work);
  }
}

// A block of floats or doubles that starts on a cache line, uninitialised.
template <typename T>
class Scratch {
 public:
  explicit Scratch(int64_t count) : storage_(new T[count + 64 / sizeof(T)]) {
    const auto address = reinterpret_cast<uintptr_t>(storage_.get());
    data_ = reinterpret_cast<T*>((address + 63) / 64 * 64);
  }
  T* get() { return data_; }

 private:
  std::unique_ptr<T[]> storage_;
  T* data_;
};

}  // namespace ingot::kernels::tiles
