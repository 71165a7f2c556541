// Runs backward-pass items as five separate products per key tile, each with its result in memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_backward_problem.h"
#include "kernels/attention/attention_inner.h"
#include "kernels/attention/attention_keys.h"
#include "kernels/attention/tile_index.h"
#include "kernels/scratch.h"

namespace ingot::kernels::backward {

using tiles::QueryRange;
using tiles::Scratch;
using tiles::TileIndex;
using tiles::Visibility;

// One block's queries in the two formats that the products need.
template <typename Acc>
struct PackedQueries {
  explicit PackedQueries(int64_t rows, int64_t words, int64_t pairs, int64_t width)
      : q(rows * words),
        grad_out(rows * words),
        q_pairs(pairs * width),
        grad_out_pairs(pairs * width),
        lse2(rows),
        delta(rows) {}
  Scratch<Acc> q, grad_out, q_pairs, grad_out_pairs, lse2, delta;
  int64_t kv_head = -1, first = -1;  // identifies the packed block; -1 = none
};

template <typename T>
class RowWorker {
  using Acc = Accumulator<T>;

 public:
  RowWorker(const Problem<T>& problem, const TileIndex& index)
      : p_(problem),
        inner_(inner::GetAttention<T>()),
        index_(index),
        most_rows_(p_.queries_per_block * p_.group),
        words_(inner::PackedWords(inner_, p_.shape.head_dim)),
        key_columns_(words_ * kKeyTile),
        value_columns_(words_ * kKeyTile),
        key_pairs_(inner::PackedWords(inner_, kKeyTile) * p_.width),
        s_(most_rows_ * kKeyTile),
        dp_(most_rows_ * kKeyTile),
        ds_(most_rows_ * kKeyTile),
        rows_(static_cast<size_t>(2 * most_rows_)) {
    const int64_t blocks = std::min(CeilDiv(p_.stripes.queries, p_.queries_per_block), kPackedBlocks);
    for (int64_t b = 0; b < blocks; ++b) {
      packed_.emplace_back(most_rows_, words_, inner::PackedWords(inner_, most_rows_), p_.width);
    }
  }

  void Run(const Item& item) {
    const inner::KernelScope entered(inner_);
    const int64_t last_query = std::min(p_.args.rows, item.first_query + p_.stripes.queries);
    const int64_t step = static_cast<int64_t>(packed_.size()) * p_.queries_per_block;
    for (int64_t q0 = item.first_query; q0 < last_query; q0 += step) {
      RunQueries(item, q0, std::min(last_query, q0 + step));
    }
  }

 private:
  // Processes as many queries at a time as fit in packed form, so each query is packed only once. Every gradient still
  // sums its terms in ascending order.
  void RunQueries(const Item& item, int64_t first_query, int64_t last_query) {
    const int64_t last_key = std::min(p_.args.keys, item.first_key + p_.stripes.keys);
    for (int64_t k0 = item.first_key; k0 < last_key; k0 += kKeyTile) {
      const int64_t tile = k0 / kKeyTile, cols = std::min(kKeyTile, p_.args.keys - k0);
      // Covers queries from the tile's first key to the last query that may see the tile.
      const int64_t from = std::max(first_query, (k0 - p_.args.q_offset) / p_.queries_per_block * p_.queries_per_block);
      const int64_t to = std::min(last_query, index_.LastQuery(tile) - p_.args.q_offset);
      bool packed = false;
      for (int64_t first = from; first < to; first += p_.queries_per_block) {
        const int64_t last = std::min(p_.args.rows, first + p_.queries_per_block);
        const QueryRange block = index_.Queries(p_.args.q_offset + first, p_.args.q_offset + last);
        const Visibility visibility = index_.Of(block, tile);
        if (visibility == Visibility::kNone) continue;
        if (!packed) PackKeys(item.kv_head, k0, cols);
        packed = true;
        Pair(item.kv_head, first, last, k0, cols, visibility == Visibility::kSome || cols < kKeyTile);
      }
    }
  }

  static constexpr int64_t kPackedBlocks = 8;  // the number that fits in the L2 cache with the other data

  void PackKeys(int64_t kv_head, int64_t k0, int64_t cols) {
    const int64_t depth = p_.shape.head_dim;
    const T *keys[kKeyTile], *values[kKeyTile];
    p_.KeyRows(kv_head, k0, cols, keys, values);
    inner_.pack_columns(key_columns_.get(), keys, cols, depth);
    inner_.pack_columns(value_columns_.get(), values, cols, depth);
    inner_.pack_pairs(key_pairs_.get(), p_.width, keys, cols, depth);
  }

  const PackedQueries<Acc>& Packed(int64_t kv_head, int64_t first, int64_t last) {
    PackedQueries<Acc>& packed = packed_[static_cast<size_t>(first / p_.queries_per_block) % packed_.size()];
    if (packed.kv_head == kv_head && packed.first == first) return packed;
    packed.kv_head = kv_head;
    packed.first = first;
    const int64_t depth = p_.shape.head_dim, count = (last - first) * p_.group;
    const T **q = rows_.data(), **grad_out = q + most_rows_;
    for (int64_t i = first, r = 0; i < last; ++i) {
      const int64_t head = i * p_.shape.heads + kv_head * p_.group;
      for (int64_t h = head; h < head + p_.group; ++h, ++r) {
        q[r] = p_.args.q + h * depth;
        grad_out[r] = p_.args.grad_out + h * depth;
        packed.lse2.get()[r] = p_.lse2[h];
        packed.delta.get()[r] = p_.delta[h];
      }
    }
    inner_.pack_rows(packed.q.get(), q, count, depth);
    inner_.pack_rows(packed.grad_out.get(), grad_out, count, depth);
    inner_.pack_pairs(packed.q_pairs.get(), p_.width, q, count, depth);
    inner_.pack_pairs(packed.grad_out_pairs.get(), p_.width, grad_out, count, depth);
    return packed;
  }

  // Combines queries [first, last) with the packed key tile.
  void Pair(int64_t kv_head, int64_t first, int64_t last, int64_t k0, int64_t cols, bool masked) {
    const PackedQueries<Acc>& packed = Packed(kv_head, first, last);
    const int64_t rows = (last - first) * p_.group;
    Scores(s_.get(), packed.q.get(), key_columns_.get(), rows);
    tiles::CapScores(p_.shape, rows, s_.get());
    if (masked) {
      const int64_t query = p_.args.q_offset + first;
      inner_.mask(s_.get(), rows, tiles::MaskOf(p_.sequence, p_.shape, p_.group, query, k0, cols));
    }
    Scores(dp_.get(), packed.grad_out.get(), value_columns_.get(), rows);
    const Acc inverse_cap = p_.shape.soft_cap == 0 ? Acc(0) : static_cast<Acc>(1 / p_.shape.soft_cap);
    inner_.softmax_backward(s_.get(), dp_.get(), ds_.get(), rows, tiles::BinaryScale<Acc>(p_.shape), inverse_cap,
                            packed.lse2.get(), packed.delta.get());
    AddRows(p_.GradV(kv_head, k0), s_.get(), packed.grad_out_pairs.get(), rows, cols);
    AddRows(p_.GradK(kv_head, k0), dp_.get(), packed.q_pairs.get(), rows, cols);
    inner_.gemm({.c = p_.GradQ(kv_head, first),
                 .ldc = p_.width,
                 .row_scale = nullptr,
                 .add = true,
                 .rows = rows,
                 .width = p_.width,
                 .depth = CeilDiv(cols, inner_.pack),
                 .a = inner_.pack > 1 ? ds_.get() : dp_.get(),
                 .row_step = kKeyTile / inner_.pack,
                 .k_step = 1,
                 .b = key_pairs_.get(),
                 .ldb = p_.width});
  }

  // Computes s = a b over all columns. Columns after the last key are zero, because a NaN there would not be cancelled
  // by a zero probability.
  void Scores(Acc* s, const Acc* a, const Acc* b, int64_t rows) {
    inner_.gemm({.c = s,
                 .ldc = kKeyTile,
                 .row_scale = nullptr,
                 .add = false,
                 .rows = rows,
                 .width = kKeyTile,
                 .depth = words_,
                 .a = a,
                 .row_step = words_,
                 .k_step = 1,
                 .b = b,
                 .ldb = kKeyTile});
  }

  // Adds to the gradient of the tile's keys or values: c += a^T b over the query rows.
  void AddRows(Acc* c, const Acc* a, const Acc* b, int64_t rows, int64_t cols) {
    inner_.gemm({.c = c,
                 .ldc = p_.width,
                 .row_scale = nullptr,
                 .add = true,
                 .rows = cols,
                 .width = p_.width,
                 .depth = CeilDiv(rows, inner_.pack),
                 .a = a,
                 .row_step = 1,
                 .k_step = kKeyTile,
                 .b = b,
                 .ldb = p_.width});
  }

  const Problem<T>& p_;
  const inner::AttentionKernels<T>& inner_;
  const TileIndex& index_;
  const int64_t most_rows_, words_;
  Scratch<Acc> key_columns_, value_columns_, key_pairs_, s_, dp_, ds_;
  std::vector<const T*> rows_;
  std::vector<PackedQueries<Acc>> packed_;
};

}  // namespace ingot::kernels::backward
