// The race that draws a token: id v's time is exponential with rate w(v), and the least time wins. Then v wins with
// probability w(v) / sum w (the exponential form of the Gumbel-max trick). No sum over the row is needed.
//
//   time(v) = -ln U(v) / w(v),   1 - U(v) = (~h + 1/2) 2^-64,   h = base::DeriveSeed(seed, v)
//
// Equal times go to the smaller id. The times are compared as ln(-ln U) - ln w, so the entries of a row need no scale:
// any constant may be added to all of them. As -ln U > 1 - U, one comparison discards nearly every id: a loop over
// vectors skips ids that cannot win, and about ln(count) of them are evaluated.
//
// Invariant (tests hold it bit for bit): a result depends only on the arguments. It is the same under every
// instruction set and C library. The instruction sets decide only how many ids are discarded without evaluation; times
// are evaluated in one place, with a logarithm of this file.
//
// Plain functions; thread safe.
#pragma once

#include <cstdint>
#include <limits>

namespace ingot::kernels {

struct RaceRow {
  const float* log_weight = nullptr;  // [count], ln w + a constant, < infinity; -infinity or NaN = never drawn
  int64_t count = 0;
  const int32_t* ids = nullptr;  // [count], ascending; null = entry i is id i
};

// Keeps the most likely entries of a row. Of equal entries the earlier one counts as more likely. Entries at places
// below `split` stay if they are at least `floor`, later ones if they are above it.
struct RaceCut {
  float floor = std::numeric_limits<float>::lowest();  // finite
  int64_t split = std::numeric_limits<int64_t>::max();
};

// The winner's place in the row; -1 = nothing may be drawn.
int64_t Race(const RaceRow& row, uint64_t seed, const RaceCut& cut = {});

// The first place of the largest entry; -1 = no entry is above -infinity.
int64_t MostLikely(const float* row, int64_t count);
// The first place in [begin, count) whose entry is at least `floor`; `count` = none is.
int64_t NextAtLeast(const float* row, int64_t begin, int64_t count, float floor);
// The sum of exp(entry - top) over the entries that `cut` keeps, to 1e-6 of itself. REQUIRES: they are at most `top`.
double MassOf(const float* row, int64_t count, const RaceCut& cut, float top);

// The natural logarithm of a positive normal number, to four units in the last place.
double Log(double x);

}  // namespace ingot::kernels
