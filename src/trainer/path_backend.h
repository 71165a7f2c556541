// The trainer's attention over a packed forest.
#pragma once

#include <memory>
#include <span>

#include "kernels/numerics.h"
#include "model/transformer.h"

namespace ingot::trainer {

// Over one packed stream in DFS pre-order. `positions` (depths) and `visible_end` are those of all keys; the first
// `first_query` keys, if any, come before the queries (a prefix computed earlier), and k and v then hold them too.
// fast: tiles are cut from the stream. exact: tiles are cut along each path, as rollout's are, so that the rows are
// bit-equal to rollout's (tree/strands.h); on the CPU only. Both have the same gradient. Copies what it is given.
std::unique_ptr<model::AttentionBackend> StreamAttention(kernels::Numerics numerics, std::span<const int32_t> positions,
                                                         std::span<const int32_t> visible_end, int64_t head_dim,
                                                         int32_t first_query = 0);

}  // namespace ingot::trainer
