// Predicts the memory of one of a trainer's ranks (memory.h).
#pragma once

#include <optional>
#include <span>

#include "model/config.h"
#include "trainer/parallel/ranks.h"
#include "trainer/pass/memory.h"

namespace ingot::trainer {

// One of `size` ranks, which may not be running yet.
struct RankPlace {
  int rank = 0, size = 1;

  bool leads() const { return rank == 0; }
};

// Returns this rank's place, or nullopt if `ranks` is null.
std::optional<RankPlace> PlaceOf(const Ranks* ranks);

// Predicts the memory of one rank. Without a place, this equals PredictMemory. With a place, moments, masters, and
// reduced gradients count only for the owned parameters, and the gradients of one bucket count once per rank. The
// reduced gradients are added to every part after the first. With `by_layer` (layer_shards.h), the weights are the
// owned ones, the largest unit, and the largest parameter in transit to another rank. Rank 0 holds all weights again
// when it takes a snapshot.
MemoryNeed PredictRankMemory(const model::ModelConfig& config, int element_bytes, const PassOptions& options,
                             std::span<const tree::ForestPart> parts, const std::optional<RankPlace>& place,
                             bool by_layer = false, Operators operators = Operators::kNative);

// Returns the number of ranks that share this machine's memory: all of them, because they start on one
// machine.
int RanksHere(const Ranks* ranks);

}  // namespace ingot::trainer
