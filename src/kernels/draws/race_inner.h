// The loops over a row of race.h, compiled once per instruction set (race_*.cc) and chosen at run time.
#pragma once

#include <cstdint>

#include "kernels/draws/race.h"

namespace ingot::kernels::inner {

inline constexpr int64_t kMassLanes = 16;

// Numbers of DeriveSeed and Mix64 (base/rng.h).
inline constexpr uint64_t kStream = 0xD1342543DE82EF95ull, kGamma = 0x9E3779B97F4A7C15ull,
                          kMix1 = 0xBF58476D1CE4E5B9ull, kMix2 = 0x94D049BB133111EBull;

struct RaceKernels {
  const char* name;

  // The first place in [begin, end) that may win. It passes over entries below `least`, and over ids whose time is
  // above e^bound; id = place. How many others it passes over is up to the instruction set. bound = FLT_MAX: it stops
  // at the first entry that is at least `least`. `key` = Mix64(seed).
  int64_t (*next)(const float* row, int64_t begin, int64_t end, uint64_t key, float least, float bound);

  float (*top)(const float* row, int64_t n);  // n >= 1

  // Adds exp(row[i] - top) to lanes[i % kMassLanes], for entries that are at least `floor`. Equal bits in every set.
  void (*add_mass)(const float* row, int64_t n, float floor, float top, double* lanes);
};

// Null = the compiler could not build it.
const RaceKernels* RaceAvx512();
const RaceKernels* RaceAvx2();
const RaceKernels* RacePortable();
// The table of the instruction set in force (attention.h: InstructionSet).
const RaceKernels& GetRace();

int64_t Race(const RaceKernels& set, const RaceRow& row, uint64_t seed, const RaceCut& cut);
double MassOf(const RaceKernels& set, const float* row, int64_t count, const RaceCut& cut, float top);

}  // namespace ingot::kernels::inner
