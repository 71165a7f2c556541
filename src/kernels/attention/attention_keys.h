// Helpers shared by the forward and backward passes of CPU attention: key locations, and masks for a query tile.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_inner.h"
#include "kernels/simd/inner.h"

namespace ingot::kernels::tiles {

static_assert(kKeyTile == inner::kKeys);

// Number of rows (queries x heads in a group) that are combined with a key tile at once, if the group size allows it.
// Their scores stay in the L1 cache.
inline constexpr int64_t kRowsPerBlock = 64;

inline constexpr double kLn2 = 0.69314718055994530942;

inline int64_t QueriesPerBlock(int64_t group) { return std::max<int64_t>(1, kRowsPerBlock / group); }
inline int64_t RoundUp(int64_t a, int64_t b) { return (a + b - 1) / b * b; }

// Returns the run that contains key k0, or null if the sequence has no runs.
inline const KeyRun* RunOf(const AttentionSequence& s, int64_t k0) {
  if (s.key_runs == nullptr) return nullptr;
  const KeyRun* end = s.key_runs + s.key_run_count;
  return std::upper_bound(s.key_runs, end, k0, [](int64_t key, const KeyRun& run) { return key < run.key; }) - 1;
}

// Calls f(j, key, value) for keys [k0, k0 + cols) in a sequence and one kv head, where j starts at 0. Iterates over one
// page at a time, because during decoding, a division per key would cost more than the key itself.
template <typename T, typename F>
void ForKeys(const AttentionForwardArgs<T>& args, const AttentionShape& shape, const AttentionSequence& s, int64_t head,
             int64_t k0, int64_t cols, const F& f) {
  const int64_t offset = head * shape.head_dim;
  int64_t page = 0, slot = 0;
  if (s.block_table != nullptr) {
    page = k0 / args.page_size;
    slot = k0 % args.page_size;
  }
  const KeyRun* key_run = RunOf(s, k0);
  for (int64_t j = 0; j < cols; ++page, slot = 0) {
    int64_t row = s.key_begin + k0, run = cols;
    if (key_run != nullptr) {
      row = key_run->row + k0 + j - key_run->key;
      ++key_run;
      if (key_run != s.key_runs + s.key_run_count) run = key_run->key - k0;
      run = std::min(cols, run) - j;
    } else if (s.block_table != nullptr) {
      row = static_cast<int64_t>(s.block_table[page]) * args.page_size + slot;
      run = std::min(cols - j, args.page_size - slot);
    }
    const T *k = args.k + row * args.k_row_stride + offset, *v = args.v + row * args.v_row_stride + offset;
    for (int64_t end = j + run; j < end; ++j, k += args.k_row_stride, v += args.v_row_stride) f(j, k, v);
  }
}

// Returns the scale for scores in base 2. Capped scores already include shape.scale. A scale of 0 is replaced by the
// smallest positive number, because 0 times a hidden score's infinity would be NaN. The probabilities are the same.
template <typename Acc>
Acc BinaryScale(const AttentionShape& shape) {
  if (shape.soft_cap > 0) return static_cast<Acc>(1 / kLn2);
  const Acc scale = static_cast<Acc>(shape.scale / kLn2);
  return scale == Acc(0) ? std::numeric_limits<Acc>::min() : scale;
}

// Caps the scores of `rows` rows of a key tile, if the shape has a cap. The result includes the scale.
template <typename Acc>
void CapScores(const AttentionShape& shape, int64_t rows, Acc* s) {
  if (shape.soft_cap == 0) return;
  inner::Get<Acc>().soft_cap(s, static_cast<Acc>(shape.scale / shape.soft_cap), static_cast<Acc>(shape.soft_cap),
                             rows * kKeyTile);
}

// Returns the mask for queries starting at packed index first_query and keys [k0, k0 + cols).
inline inner::TileMask MaskOf(const AttentionSequence& s, const AttentionShape& shape, int64_t group,
                              int64_t first_query, int64_t k0, int64_t cols) {
  const bool positions = shape.window > 0 && s.positions != nullptr;
  return {.group = group,
          .first_query = first_query,
          .first_key = k0,
          .keys = cols,
          .visible_end = s.visible_end == nullptr ? nullptr : s.visible_end + k0,
          .window = std::min<int64_t>(shape.window, std::numeric_limits<int32_t>::max()),  // no index is larger
          .hidden = shape.scale < 0 && shape.soft_cap == 0 ? std::numeric_limits<double>::infinity()
                                                           : -std::numeric_limits<double>::infinity(),
          .key_positions = positions ? s.positions + k0 : nullptr,
          .query_positions = positions ? s.positions + first_query : nullptr};
}

}  // namespace ingot::kernels::tiles
