// Describes one backward pass of CPU attention: how it is divided into items for threads, and where their sums are
// stored. Used only by attention_backward.cc and the two headers that run items.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_keys.h"
#include "kernels/share_out.h"

namespace ingot::kernels::backward {

using tiles::CeilDiv;

// Keys and queries are divided into stripes. Phase p combines key stripe k with query stripe (k + p) mod n. So no two
// items in a phase add to the same gradient, and every gradient sums its terms in phase order. No per-thread copies
// have to be summed, and results do not depend on the threads. The division depends only on the shape.
struct Stripes {
  int64_t keys, queries;  // per stripe; a boundary never splits a key tile or a query block
  int64_t key_stripes, query_stripes;
  int64_t Phases() const { return std::max(key_stripes, query_stripes); }
};

inline Stripes CutStripes(int64_t keys, int64_t rows, int64_t queries_per_block, int64_t most) {
  constexpr int64_t kMin = 2 * kKeyTile;
  Stripes s;
  s.keys = tiles::RoundUp(std::max(kMin, CeilDiv(keys, most)), kKeyTile);
  s.queries = tiles::RoundUp(std::max(kMin, CeilDiv(rows, most)), queries_per_block);
  s.key_stripes = CeilDiv(keys, s.keys);
  s.query_stripes = CeilDiv(rows, s.queries);
  return s;
}

struct Item {
  int64_t kv_head, first_key, first_query;  // start of a stripe; queries are numbered from the first row
  int64_t tiles;                            // number of visible (key tile, query block) pairs
};

template <typename T>
struct Problem {
  using Acc = Accumulator<T>;
  AttentionShape shape;
  AttentionBackwardArgs<T> args;
  AttentionSequence sequence;
  const inner::BlockBackward<T>* blocks;  // null = compute a tile's five products one after another
  int64_t group, width, queries_per_block;
  Stripes stripes;
  const Acc *lse2, *delta;  // [rows, heads]: log-sum-exp in base 2, and sum of grad_out * out
  // [kv_heads, rows * group, width], and twice [kv_heads, keys, width]. With blocks, rows and keys are rounded up to
  // whole blocks and tiles, and the format is machine-specific.
  Acc *grad_q, *grad_k, *grad_v;
  int64_t all_rows, all_keys;  // allocated rows and keys per kv head

  Acc* GradQ(int64_t kv_head, int64_t query) const { return grad_q + (kv_head * all_rows + query * group) * width; }
  Acc* GradK(int64_t kv_head, int64_t key) const { return grad_k + (kv_head * all_keys + key) * width; }
  Acc* GradV(int64_t kv_head, int64_t key) const { return grad_v + (kv_head * all_keys + key) * width; }

  // Sets the addresses of keys [first, first + count) and of their values.
  void KeyRows(int64_t kv_head, int64_t first, int64_t count, const T** keys, const T** values) const {
    const int64_t stride = shape.kv_heads * shape.head_dim, at = first * stride + kv_head * shape.head_dim;
    for (int64_t j = 0; j < count; ++j) {
      keys[j] = args.k + at + j * stride;
      values[j] = args.v + at + j * stride;
    }
  }
};

}  // namespace ingot::kernels::backward
