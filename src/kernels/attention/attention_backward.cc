#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_backward_blocks.h"
#include "kernels/attention/attention_backward_problem.h"
#include "kernels/attention/attention_backward_rows.h"
#include "kernels/attention/attention_inner.h"
#include "kernels/attention/attention_keys.h"
#include "kernels/attention/tile_index.h"
#include "kernels/scratch.h"
#include "kernels/share_out.h"

namespace ingot::kernels {
namespace {

using backward::BlockWorker;
using backward::Item;
using backward::Problem;
using backward::RowWorker;
using backward::Stripes;
using tiles::CeilDiv;
using tiles::kLn2;
using tiles::QueryRange;
using tiles::Scratch;
using tiles::TileIndex;

// Returns the items of every phase, longest first.
template <typename T>
std::vector<std::vector<Item>> MakePhases(const Problem<T>& p, const TileIndex& index) {
  const Stripes& s = p.stripes;
  const int64_t phases = s.Phases();
  std::vector<std::vector<Item>> plan(static_cast<size_t>(phases));
  for (int64_t k = 0; k < s.key_stripes; ++k) {
    const int64_t first_tile = k * s.keys / kKeyTile,
                  last_tile = CeilDiv(std::min(p.args.keys, (k + 1) * s.keys), kKeyTile);
    for (int64_t q = 0; q < s.query_stripes; ++q) {
      const int64_t begin = q * s.queries, end = std::min(p.args.rows, begin + s.queries);
      int64_t tiles = 0;
      for (int64_t first = begin; first < end; first += p.queries_per_block) {
        const QueryRange block =
            index.Queries(p.args.q_offset + first, p.args.q_offset + std::min(end, first + p.queries_per_block));
        tiles += index.Count(first_tile, std::min(last_tile, index.End(block)), block);
      }
      if (tiles == 0) continue;
      std::vector<Item>& items = plan[static_cast<size_t>((q - k + phases) % phases)];
      for (int64_t h = 0; h < p.shape.kv_heads; ++h) items.push_back({h, k * s.keys, begin, tiles});
    }
  }
  for (std::vector<Item>& items : plan) {
    std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.tiles > b.tiles; });
  }
  return plan;
}

// Writes the sums to the caller's arrays.
template <typename T>
void StoreGradQ(const Problem<T>& p, const inner::AttentionKernels<T>& inner, int64_t query) {
  const int64_t depth = p.shape.head_dim;
  const auto scale = static_cast<Accumulator<T>>(p.shape.scale);
  const auto to = [&](int64_t kv_head, int64_t row) {
    return p.args.grad_q + (row / p.group * p.shape.heads + kv_head * p.group + row % p.group) * depth;
  };
  for (int64_t h = 0; h < p.shape.kv_heads; ++h) {
    const int64_t first = query * p.group, last = first + p.group;
    if (p.blocks == nullptr) {
      for (int64_t r = first; r < last; ++r) inner.store(to(h, r), p.GradQ(h, 0) + r * p.width, scale, depth);
      continue;
    }
    // Packs the blocks that start with a row of this query.
    const int64_t rows = p.blocks->rows;
    std::vector<T*> block;
    for (int64_t at = tiles::RoundUp(first, rows); at < last; at += rows) {
      block.clear();
      for (int64_t r = at; r < std::min(at + rows, p.args.rows * p.group); ++r) block.push_back(to(h, r));
      p.blocks->store_grad_q(p.GradQ(h, 0) + at * p.width, depth, scale, block.data(),
                             static_cast<int64_t>(block.size()));
    }
  }
}

template <typename T>
void StoreGradKeys(const Problem<T>& p, const inner::AttentionKernels<T>& inner, int64_t key) {
  using Acc = Accumulator<T>;
  const int64_t depth = p.shape.head_dim;
  const Acc scale = static_cast<Acc>(p.shape.scale);
  const int64_t row = p.blocks == nullptr ? 0 : p.width, in_tile = key % kKeyTile;
  std::vector<Acc> rows(static_cast<size_t>(2 * row));
  for (int64_t h = 0; h < p.shape.kv_heads; ++h) {
    const int64_t at = (key * p.shape.kv_heads + h) * depth;
    const Acc *k = p.GradK(h, key), *v = p.GradV(h, key);
    if (p.blocks != nullptr) {
      p.blocks->grad_key_row(p.GradK(h, key - in_tile), in_tile, depth, rows.data());
      p.blocks->grad_key_row(p.GradV(h, key - in_tile), in_tile, depth, rows.data() + row);
      k = rows.data();
      v = rows.data() + row;
    }
    if (p.args.grad_k_sum != nullptr) {
      for (int64_t d = 0; d < depth; ++d) p.args.grad_k_sum[at + d] += k[d] * scale;
      for (int64_t d = 0; d < depth; ++d) p.args.grad_v_sum[at + d] += v[d];
    } else {
      inner.store(p.args.grad_k + at, k, scale, depth);
      inner.store(p.args.grad_v + at, v, Acc(1), depth);
    }
  }
}

// A sink has probability e^(sink - lse) and no value. The gradient of its score is the probability times -delta.
template <typename T>
void GradSink(const AttentionShape& shape, const AttentionBackwardArgs<T>& args, const Accumulator<T>* delta,
              int64_t head) {
  double sum = 0;
  for (int64_t row = 0; row < args.rows; ++row) {
    const int64_t at = row * shape.heads + head;
    if (std::isinf(args.lse[at])) continue;
    sum -= std::exp(static_cast<double>(args.sinks[head]) - static_cast<double>(args.lse[at])) *
           static_cast<double>(delta[at]);
  }
  args.grad_sinks[head] = static_cast<Accumulator<T>>(sum);
}

}  // namespace

template <typename T>
void AttentionBackward(const AttentionShape& shape, const AttentionBackwardArgs<T>& args, const ParallelFor& parallel) {
  using Acc = Accumulator<T>;
  const inner::AttentionKernels<T>& inner = inner::GetAttention<T>();
  const int64_t rows = args.rows, keys = args.keys, entries = rows * shape.heads, depth = shape.head_dim;
  const int64_t group = shape.heads / shape.kv_heads, width = tiles::RoundUp(depth, inner::kAlign);
  const inner::BlockBackward<T>* const blocks = shape.soft_cap == 0 ? inner.backward_blocks : nullptr;
  // Stripes end at query block boundaries.
  const int64_t block_rows = blocks != nullptr ? blocks->rows : 1;
  const int64_t per_block =
      blocks != nullptr ? block_rows / std::gcd(block_rows, group) : tiles::QueriesPerBlock(group);
  const int64_t all_rows = tiles::RoundUp(rows * group, block_rows),
                all_keys = tiles::RoundUp(keys, blocks != nullptr ? kKeyTile : 1);
  Scratch<Acc> lse2(entries), delta(entries), grad_q(all_rows * shape.kv_heads * width),
      grad_k(all_keys * shape.kv_heads * width), grad_v(all_keys * shape.kv_heads * width);
  AttentionSequence sequence;
  sequence.visible_end = args.visible_end;
  sequence.positions = args.positions;
  const Problem<T> problem{
      shape,        args,        sequence,     blocks,
      group,        width,       per_block,    backward::CutStripes(keys, rows, per_block, blocks != nullptr ? 16 : 32),
      lse2.get(),   delta.get(), grad_q.get(), grad_k.get(),
      grad_v.get(), all_rows,    all_keys};

  const double row_flops = 4.0 * static_cast<double>(shape.heads * depth);
  tiles::ShareOut(parallel, rows, row_flops * static_cast<double>(rows), [&] {
    return [&](int64_t row) {
      for (int64_t e = row * shape.heads; e < (row + 1) * shape.heads; ++e) {
        delta.get()[e] = inner.row_dot(args.grad_out + e * depth, args.out + e * depth, depth);
        // +infinity, because then a query that sees no key has probabilities 2^(score - infinity) = 0.
        lse2.get()[e] = args.lse[e] == -std::numeric_limits<Acc>::infinity() ? std::numeric_limits<Acc>::infinity()
                                                                             : static_cast<Acc>(args.lse[e] / kLn2);
      }
      for (int64_t h = 0; h < shape.kv_heads; ++h) {
        const int64_t end = row + 1 < rows ? (row + 1) * group : all_rows;
        std::memset(problem.GradQ(h, row), 0, static_cast<size_t>((end - row * group) * width) * sizeof(Acc));
      }
    };
  });
  tiles::ShareOut(parallel, keys, row_flops * static_cast<double>(keys), [&] {
    return [&](int64_t key) {
      for (int64_t h = 0; h < shape.kv_heads; ++h) {
        const int64_t end = key + 1 < keys ? key + 1 : all_keys;
        std::memset(problem.GradK(h, key), 0, static_cast<size_t>((end - key) * width) * sizeof(Acc));
        std::memset(problem.GradV(h, key), 0, static_cast<size_t>((end - key) * width) * sizeof(Acc));
      }
    };
  });

  const TileIndex index(args.visible_end, args.positions, shape.window, keys);
  const double tile_flops = 10.0 * static_cast<double>(kKeyTile * tiles::kRowsPerBlock * depth);
  for (const std::vector<Item>& items : MakePhases(problem, index)) {
    double tiles = 0;
    for (const Item& item : items) tiles += static_cast<double>(item.tiles);
    const auto count = static_cast<int64_t>(items.size());
    if (blocks != nullptr) {
      tiles::ShareOut(parallel, count, tiles * tile_flops, [&] {
        auto worker = std::make_unique<BlockWorker<T>>(problem, index);
        return [&, worker = std::move(worker)](int64_t i) { worker->Run(items[static_cast<size_t>(i)]); };
      });
      continue;
    }
    tiles::ShareOut(parallel, count, tiles * tile_flops, [&] {
      auto worker = std::make_unique<RowWorker<T>>(problem, index);
      return [&, worker = std::move(worker)](int64_t i) { worker->Run(items[static_cast<size_t>(i)]); };
    });
  }

  tiles::ShareOut(parallel, rows, row_flops * static_cast<double>(rows),
                  [&] { return [&](int64_t row) { StoreGradQ(problem, inner, row); }; });
  tiles::ShareOut(parallel, keys, row_flops * static_cast<double>(keys),
                  [&] { return [&](int64_t key) { StoreGradKeys(problem, inner, key); }; });
  if (args.sinks != nullptr && args.grad_sinks != nullptr) {
    tiles::ShareOut(parallel, shape.heads, 4.0 * static_cast<double>(entries),
                    [&] { return [&](int64_t head) { GradSink(shape, args, delta.get(), head); }; });
  }
}

#define INGOT_INSTANTIATE(T) \
  template void AttentionBackward<T>(const AttentionShape&, const AttentionBackwardArgs<T>&, const ParallelFor&);
INGOT_INSTANTIATE(BFloat16)
INGOT_INSTANTIATE(float)
INGOT_INSTANTIATE(double)

}  // namespace ingot::kernels
