// Samples a token with a race: the time for id v is exponentially distributed with rate w(v), and the smallest time
// wins. So v wins with probability w(v) / sum w (the exponential form of the Gumbel-max trick). This does not need the
// sum over the row.
//
//   time(v) = -ln U(v) / w(v),   1 - U(v) = (~h + 1/2) 2^-64,   h = base::DeriveSeed(seed, v)
//
// If times are equal, the smaller id wins. Times are compared as ln(-ln U) - ln w, so any constant may be added to all
// entries of a row. Since -ln U > 1 - U, a single comparison discards nearly every id. A vectorized loop skips ids that
// cannot win, and only about ln(count) ids are evaluated.
//
// Invariant (tested bit for bit): a result depends only on the arguments. It is the same with every instruction set and
// C library. The instruction set affects only how many ids are discarded without evaluation. Times are evaluated in one
// place, with a logarithm defined in this file.
//
// Plain functions. Thread safe.
#pragma once

#include <cstdint>
#include <limits>

namespace ingot::kernels {

struct RaceRow {
  const float* log_weight = nullptr;  // [count], ln w plus a constant, below infinity; -infinity or NaN = never sampled
  int64_t count = 0;
  const int32_t* ids = nullptr;  // [count], ascending; null = entry i is id i
};

// Keeps a row's most likely entries. Among equal entries, earlier ones count as more likely. Entries at indices below
// `split` are kept if they are at least `floor`, and later ones if they are greater.
struct RaceCut {
  float floor = std::numeric_limits<float>::lowest();  // finite
  int64_t split = std::numeric_limits<int64_t>::max();
};

// Returns the winner's index in the row; -1 = nothing can be sampled.
int64_t Race(const RaceRow& row, uint64_t seed, const RaceCut& cut = {});

// Returns the first index of the largest entry; -1 = no entry is greater than -infinity.
int64_t MostLikely(const float* row, int64_t count);
// Returns the first index in [begin, count) with an entry of at least `floor`, or `count` if there is none.
int64_t NextAtLeast(const float* row, int64_t begin, int64_t count, float floor);
// Returns the sum of exp(entry - top) over the entries that `cut` keeps, with a relative error of 1e-6. REQUIRES: these
// entries are at most `top`.
double MassOf(const float* row, int64_t count, const RaceCut& cut, float top);

// Returns the natural logarithm of a positive normal number, with an error of up to four units in the last place.
double Log(double x);

}  // namespace ingot::kernels
