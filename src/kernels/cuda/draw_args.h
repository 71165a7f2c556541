// Arguments for the CUDA draw kernels (draw.cuh): plain values and device pointers.
#pragma once

#include <cstdint>

#include "kernels/bfloat16.h"
#include "kernels/draws/race.h"

namespace ingot::kernels::cuda {

inline constexpr int kDrawPart = 16384;  // entries of a row per block

// The smallest time of a part, as a logarithm, and its index in the row; -1 = nothing can be sampled.
struct DrawBest {
  double log_time;
  int64_t place;
};

struct DrawArgs {
  const float* log_weights;  // [rows, count], as RaceRow::log_weight without ids
  int64_t rows, count;
  const uint64_t* seeds;  // [rows]
  const RaceCut* cuts;    // [rows]; null = every entry is kept
  DrawBest* best;         // [rows, parts], scratch
  int64_t* winners;       // [rows], as Race
  float* log_probs;       // [rows], the winners' entries; -infinity without a winner

  INGOT_HOST_DEVICE int64_t parts() const { return (count + kDrawPart - 1) / kDrawPart; }
};

}  // namespace ingot::kernels::cuda
