// Runs backward-pass items on machines that compute a key tile's five products in one step
// (inner::AttentionKernels::backward_blocks).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
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

template <typename T>
class BlockWorker {
  using Acc = Accumulator<T>;

 public:
  BlockWorker(const Problem<T>& problem, const TileIndex& index)
      : p_(problem),
        inner_(inner::GetAttention<T>()),
        blocks_(*p_.blocks),
        index_(index),
        words_(inner::PackedWords(inner_, p_.shape.head_dim)),
        block_words_(2 * blocks_.rows * words_ + 2 * inner::PackedWords(inner_, blocks_.rows) * p_.width),
        keys_(words_ * kKeyTile),
        values_(words_ * kKeyTile),
        key_pairs_(inner::PackedWords(inner_, kKeyTile) * p_.width),
        packed_(kPackedBlocks * block_words_),
        rows_(static_cast<size_t>(kPackedBlocks)) {
    for (Rows& rows : rows_) {
      rows.lse2.resize(static_cast<size_t>(blocks_.rows));
      rows.delta.resize(static_cast<size_t>(blocks_.rows));
      rows.queries.resize(static_cast<size_t>(blocks_.rows));
      rows.positions.resize(static_cast<size_t>(blocks_.rows));
    }
  }

  void Run(const Item& item) {
    const inner::KernelScope entered(inner_);
    const int64_t last = std::min(p_.args.rows, item.first_query + p_.stripes.queries) * p_.group;
    for (int64_t r = item.first_query * p_.group; r < last; r += kPackedBlocks * blocks_.rows) {
      RunRows(item, r, std::min(last, r + kPackedBlocks * blocks_.rows));
    }
  }

 private:
  static constexpr int64_t kPackedBlocks = 16;  // the number whose packed form stays in the L2 cache
  struct Rows {
    QueryRange range{};
    bool packed = false;
    std::vector<Acc> lse2, delta;
    std::vector<int32_t> queries, positions;
  };

  // Runs rows of the kv head, which are queries x heads in its group. Every gradient sums its terms in ascending order.
  void RunRows(const Item& item, int64_t first_row, int64_t last_row) {
    const int64_t count = CeilDiv(last_row - first_row, blocks_.rows);
    for (int64_t b = 0; b < count; ++b) {
      const int64_t first = first_row + b * blocks_.rows, last = std::min(last_row, first + blocks_.rows);
      Rows& rows = rows_[static_cast<size_t>(b)];
      rows.packed = false;
      rows.range = index_.Queries(p_.args.q_offset + first / p_.group, p_.args.q_offset + (last - 1) / p_.group + 1);
    }
    const int64_t last_key = std::min(p_.args.keys, item.first_key + p_.stripes.keys);
    for (int64_t k0 = item.first_key; k0 < last_key; k0 += kKeyTile) {
      const int64_t cols = std::min(kKeyTile, p_.args.keys - k0);
      pairs_.clear();
      for (int64_t b = 0; b < count; ++b) {
        Rows& rows = rows_[static_cast<size_t>(b)];
        const Visibility visibility = index_.Of(rows.range, k0 / kKeyTile);
        if (visibility == Visibility::kNone) continue;
        const int64_t first = first_row + b * blocks_.rows;
        if (!rows.packed) PackRows(item.kv_head, first, std::min(last_row, first + blocks_.rows), b);
        inner::BlockPair<Acc>& pair = pairs_.emplace_back(PairOf(b));
        pair.grad_q = p_.GradQ(item.kv_head, 0) + first * p_.width;
        pair.masked = visibility == Visibility::kSome || cols < kKeyTile;
        if (pair.masked) pair.mask = tiles::MaskOf(p_.sequence, p_.shape, p_.group, rows.range.first, k0, cols);
      }
      if (pairs_.empty()) continue;
      PackKeys(item.kv_head, k0, cols);
      blocks_.run(
          {keys_.get(), values_.get(), key_pairs_.get(), p_.GradK(item.kv_head, k0), p_.GradV(item.kv_head, k0)},
          pairs_.data(), static_cast<int64_t>(pairs_.size()), p_.shape.head_dim, tiles::BinaryScale<Acc>(p_.shape));
    }
  }

  inner::BlockPair<Acc> PairOf(int64_t block) {
    const Rows& rows = rows_[static_cast<size_t>(block)];
    inner::BlockPair<Acc> pair{};
    Acc* at = packed_.get() + block * block_words_;
    pair.q = at;
    pair.grad_out = at += blocks_.rows * words_;
    pair.q_pairs = at += blocks_.rows * words_;
    pair.grad_out_pairs = at + inner::PackedWords(inner_, blocks_.rows) * p_.width;
    pair.lse2 = rows.lse2.data();
    pair.delta = rows.delta.data();
    pair.queries = rows.queries.data();
    pair.positions = rows.positions.data();
    return pair;
  }

  void PackRows(int64_t kv_head, int64_t first, int64_t last, int64_t block) {
    Rows& rows = rows_[static_cast<size_t>(block)];
    rows.packed = true;
    std::fill(rows.lse2.begin(), rows.lse2.end(), std::numeric_limits<Acc>::infinity());
    std::fill(rows.delta.begin(), rows.delta.end(), Acc(0));
    q_rows_.clear();
    grad_out_rows_.clear();
    for (int64_t r = first; r < last; ++r) {
      const int64_t query = r / p_.group, at = query * p_.shape.heads + kv_head * p_.group + r % p_.group;
      const auto i = static_cast<size_t>(r - first);
      q_rows_.push_back(p_.args.q + at * p_.shape.head_dim);
      grad_out_rows_.push_back(p_.args.grad_out + at * p_.shape.head_dim);
      rows.lse2[i] = p_.lse2[at];
      rows.delta[i] = p_.delta[at];
      rows.queries[i] = static_cast<int32_t>(p_.args.q_offset + query);
      if (p_.shape.window > 0 && p_.args.positions != nullptr)
        rows.positions[i] = p_.args.positions[p_.args.q_offset + query];
    }
    Acc* at = packed_.get() + block * block_words_;
    if (last - first < blocks_.rows) std::memset(at, 0, static_cast<size_t>(block_words_) * sizeof(Acc));
    const int64_t depth = p_.shape.head_dim, pair_words = inner::PackedWords(inner_, blocks_.rows) * p_.width;
    blocks_.pack_queries(at, q_rows_.data(), last - first, depth);
    blocks_.pack_queries(at + blocks_.rows * words_, grad_out_rows_.data(), last - first, depth);
    blocks_.pack_pairs(at + 2 * blocks_.rows * words_, q_rows_.data(), last - first, depth);
    blocks_.pack_pairs(at + 2 * blocks_.rows * words_ + pair_words, grad_out_rows_.data(), last - first, depth);
  }

  void PackKeys(int64_t kv_head, int64_t k0, int64_t cols) {
    const int64_t depth = p_.shape.head_dim;
    const T *keys[kKeyTile], *values[kKeyTile];
    p_.KeyRows(kv_head, k0, cols, keys, values);
    blocks_.pack_keys(keys_.get(), keys, cols, depth);
    blocks_.pack_keys(values_.get(), values, cols, depth);
    blocks_.pack_key_pairs(key_pairs_.get(), keys, cols, depth);
  }

  const Problem<T>& p_;
  const inner::AttentionKernels<T>& inner_;
  const inner::BlockBackward<T>& blocks_;
  const TileIndex& index_;
  const int64_t words_, block_words_;  // block_words_ is the size of a packed block
  Scratch<Acc> keys_, values_, key_pairs_, packed_;
  std::vector<Rows> rows_;
  std::vector<inner::BlockPair<Acc>> pairs_;
  std::vector<const T*> q_rows_, grad_out_rows_;
};

}  // namespace ingot::kernels::backward
