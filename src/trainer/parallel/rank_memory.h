// What one of several ranks of a trainer holds (memory.h).
#pragma once

#include <span>

#include "model/config.h"
#include "trainer/memory.h"
#include "trainer/parallel/ranks.h"

namespace ingot::trainer {

// `parts`, `options`: PredictMemory, which it is without ranks. With ranks the moments, masters and reduced gradients
// of what it owns (these beside a part from the second one on), and the gradients of a bucket from every rank beside
// them; not of all parameters. With `by_layer` (layer_shards.h) the weights that it owns, its largest unit and the
// largest parameter, which passes through on its way to another rank; rank 0 has all again when it takes a snapshot.
MemoryNeed PredictRankMemory(const model::ModelConfig& config, int element_bytes, const PassOptions& options,
                             std::span<const tree::ForestPart> parts, const Ranks* ranks, bool by_layer = false);

// Ranks that share this machine's memory: all of them, since all are started on one machine.
int RanksHere(const Ranks* ranks);

}  // namespace ingot::trainer
