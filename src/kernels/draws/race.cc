// Evaluates times in scalar code that is compiled for the baseline, without fusing products and sums.
#include "kernels/draws/race.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "kernels/draws/race_inner.h"

namespace ingot::kernels {
namespace {

constexpr float kNoBound = FLT_MAX;

// Returns the smallest float >= x. Below returns the largest float <= x.
float Above(double x) {
  const auto near = static_cast<float>(x);
  return near < x ? std::nextafter(near, INFINITY) : near;
}
float Below(double x) { return -Above(-x); }
float After(float x) { return std::nextafter(x, INFINITY); }

// The best time so far, as a logarithm, and the bounds that follow from it.
struct Best {
  int64_t place = -1;
  double log_time = 0;
  float bound = kNoBound;

  // 1 - U is at least 2^-65, so ln(-ln U) is above -46, and an entry smaller than this loses. The remainder is a margin
  // for rounding.
  float Least(float floor) const {
    return place < 0 ? floor : std::max(floor, Below(-47 - static_cast<double>(bound)));
  }

  void Consider(int64_t at, float log_weight, uint64_t hash) {
    const double mine = inner::LogTime(hash) - static_cast<double>(log_weight);
    if (place >= 0 && !(mine < log_time)) return;
    place = at;
    log_time = mine;
    bound = Above(mine);
  }
};

void RunRange(const inner::RaceKernels& set, const float* row, int64_t begin, int64_t end, uint64_t key, float floor,
              Best& best) {
  for (int64_t i = begin; i < end; ++i) {
    i = set.next(row, i, end, key, best.Least(floor), best.bound);
    if (i < end) best.Consider(i, row[i], inner::HashOf(key, i));
  }
}

// Let a >= 0, and let e^-a be the ratio of the best time to 1 / w. A time of at least 1 - U loses if 1 - U > e^-a. That
// holds if (1 - U) (1 + a / 16)^16 > 1.
void RunListed(const RaceRow& row, int64_t begin, int64_t end, uint64_t key, float floor, Best& best) {
  float least = best.Least(floor);
  for (int64_t i = begin; i < end; ++i) {
    const float x = row.log_weight[i];
    if (!(x >= least)) continue;
    const uint64_t hash = inner::HashOf(key, row.ids[i]);
    double power = 1 + std::max(0.0, -(static_cast<double>(x) + static_cast<double>(best.bound))) / 16;
    for (int squarings = 0; squarings < 4; ++squarings) power *= power;
    if (static_cast<double>(~hash >> 33) * 0x1p-31 * power > 1 + 0x1p-12) continue;
    best.Consider(i, x, hash);
    least = best.Least(floor);
  }
}

}  // namespace

namespace inner {

int64_t Race(const RaceKernels& set, const RaceRow& row, uint64_t seed, const RaceCut& cut) {
  const uint64_t key = Mix64(seed);
  const int64_t split = std::min(cut.split, row.count);
  Best best;
  const auto run = [&](int64_t begin, int64_t end, float floor) {
    if (row.ids != nullptr) return RunListed(row, begin, end, key, floor, best);
    RunRange(set, row.log_weight, begin, end, key, floor, best);
  };
  run(0, split, cut.floor);
  run(split, row.count, After(cut.floor));
  return best.place;
}

double MassOf(const RaceKernels& set, const float* row, int64_t count, const RaceCut& cut, float top) {
  const int64_t split = std::min(cut.split, count);
  double lanes[kMassLanes] = {};
  set.add_mass(row, split, cut.floor, top, lanes);
  set.add_mass(row + split, count - split, After(cut.floor), top, lanes);
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace inner

int64_t Race(const RaceRow& row, uint64_t seed, const RaceCut& cut) {
  return inner::Race(inner::GetRace(), row, seed, cut);
}

int64_t MostLikely(const float* row, int64_t count) {
  if (count == 0) return -1;
  // NaN and -infinity are below every floor.
  const float top = std::max(inner::GetRace().top(row, count), std::numeric_limits<float>::lowest());
  const int64_t place = NextAtLeast(row, 0, count, top);
  return place < count ? place : -1;
}

int64_t NextAtLeast(const float* row, int64_t begin, int64_t count, float floor) {
  return inner::GetRace().next(row, begin, count, 0, floor, kNoBound);
}

double MassOf(const float* row, int64_t count, const RaceCut& cut, float top) {
  return inner::MassOf(inner::GetRace(), row, count, cut, top);
}

double Log(double x) { return inner::LogOf(x); }

}  // namespace ingot::kernels
