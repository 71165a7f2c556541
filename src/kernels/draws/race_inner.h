// The loops over a row for race.h. They are compiled once per instruction set (race_*.cc) and selected at run time.
#pragma once

#include <cstdint>

#include "kernels/draws/race.h"
#include "kernels/draws/race_time.h"

namespace ingot::kernels::inner {

inline constexpr int64_t kMassLanes = 16;

struct RaceKernels {
  const char* name;

  // Returns the first index in [begin, end) that may win, where id = index. Skips entries below `least`, and may skip
  // ids with a time above e^bound. Which ones it skips depends on the instruction set. If bound is FLT_MAX, stops at
  // the first entry that is at least `least`. `key` = Mix64(seed).
  int64_t (*next)(const float* row, int64_t begin, int64_t end, uint64_t key, float least, float bound);

  float (*top)(const float* row, int64_t n);  // n >= 1

  // Adds exp(row[i] - top) to lanes[i % kMassLanes] for entries that are at least `floor`. Bit-identical for every
  // instruction set.
  void (*add_mass)(const float* row, int64_t n, float floor, float top, double* lanes);
};

// Return null if the compiler could not build the table.
const RaceKernels* RaceAvx512();
const RaceKernels* RaceAvx2();
const RaceKernels* RacePortable();
// Returns the table for the instruction set in use (InstructionSet in attention.h).
const RaceKernels& GetRace();

int64_t Race(const RaceKernels& set, const RaceRow& row, uint64_t seed, const RaceCut& cut);
double MassOf(const RaceKernels& set, const float* row, int64_t count, const RaceCut& cut, float top);

}  // namespace ingot::kernels::inner
