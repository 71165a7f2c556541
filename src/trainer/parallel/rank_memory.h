// The memory of one of several ranks of a trainer (memory.h).
#pragma once

#include <optional>
#include <span>

#include "model/config.h"
#include "trainer/parallel/ranks.h"
#include "trainer/pass/memory.h"

namespace ingot::trainer {

// A rank of `size`; it need not run yet.
struct RankPlace {
  int rank = 0, size = 1;

  bool leads() const { return rank == 0; }
};

// The place of `ranks`; nothing without ranks.
std::optional<RankPlace> PlaceOf(const Ranks* ranks);

// PredictMemory for one rank; without a place, equal to it. With a place it counts the moments, masters and reduced
// gradients of only the owned parameters, and the gradients of one bucket from every rank. The reduced gradients add to
// every part from the second on. With `by_layer` (layer_shards.h) the weights are the owned ones, the largest unit, and
// the largest parameter on its way to another rank; rank 0 holds all weights again when it takes a snapshot.
MemoryNeed PredictRankMemory(const model::ModelConfig& config, int element_bytes, const PassOptions& options,
                             std::span<const tree::ForestPart> parts, const std::optional<RankPlace>& place,
                             bool by_layer = false);

// Number of ranks that share this machine's memory: all, since all are started on one machine.
int RanksHere(const Ranks* ranks);

}  // namespace ingot::trainer
