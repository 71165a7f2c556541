// The race against its definition, under every instruction set that this machine runs.
#include "kernels/draws/race.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/rng.h"
#include "kernels/draws/race_inner.h"

namespace ingot::kernels {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<const inner::RaceKernels*> Sets() {
  std::vector<const inner::RaceKernels*> sets = {inner::RacePortable()};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) sets.push_back(inner::RaceAvx2());
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) sets.push_back(inner::RaceAvx512());
#endif
  return sets;
}

bool Keeps(const RaceCut& cut, const std::vector<float>& row, int64_t place) {
  return place < cut.split ? row[place] >= cut.floor : row[place] > cut.floor;
}

// Every time of the row by definition, from the C library's functions.
int64_t PlainWinner(const std::vector<float>& row, uint64_t seed, const std::vector<int32_t>& ids = {},
                    const RaceCut& cut = {}) {
  int64_t winner = -1;
  long double best = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    if (!(row[i] > kNever) || !Keeps(cut, row, static_cast<int64_t>(i))) continue;
    const uint64_t hash = base::DeriveSeed(seed, ids.empty() ? i : static_cast<uint64_t>(ids[i]));
    const long double complement = (static_cast<long double>(~hash) + 0.5L) * 0x1p-64L;
    const long double time = std::log(-std::log1p(-complement)) - static_cast<long double>(row[i]);
    if (winner >= 0 && !(time < best)) continue;
    winner = static_cast<int64_t>(i);
    best = time;
  }
  return winner;
}

int64_t Winner(const inner::RaceKernels& set, const std::vector<float>& row, uint64_t seed,
               const std::vector<int32_t>& ids = {}, const RaceCut& cut = {}) {
  const auto count = static_cast<int64_t>(row.size());
  return inner::Race(set, {row.data(), count, ids.empty() ? nullptr : ids.data()}, seed, cut);
}

std::vector<float> NormalRow(std::mt19937_64& rng, size_t count, float spread) {
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> row(count);
  for (float& entry : row) entry = normal(rng);
  return row;
}

TEST(Race, HasTheWinnerOfThePlainRace) {
  std::mt19937_64 rng(1);
  for (int r = 0; r < 100000; ++r) {
    const std::vector<float> row = NormalRow(rng, 1 + r % 70, std::array{0.0f, 1.0f, 3.0f, 30.0f}[r % 4]);
    const int64_t expected = PlainWinner(row, r);
    for (const auto* set : Sets()) ASSERT_EQ(Winner(*set, row, r), expected) << set->name << " row " << r;
  }
}

TEST(Race, HasTheWinnerOfThePlainRaceOnLongRows) {
  std::mt19937_64 rng(2);
  for (const float spread : {0.0f, 0.5f, 3.0f, 10.0f, 100.0f, 1e4f, 1e7f}) {
    for (int r = 0; r < 8; ++r) {
      std::vector<float> row = NormalRow(rng, 20000 + r, spread);
      if (r % 4 == 1) std::sort(row.begin(), row.end());  // most ids beat the best time so far
      if (r % 4 == 2) std::sort(row.rbegin(), row.rend());
      const int64_t expected = PlainWinner(row, r);
      for (const auto* set : Sets()) EXPECT_EQ(Winner(*set, row, r), expected) << set->name << " spread " << spread;
    }
  }
}

// Numbers that no instruction set, compiler or C library may change.
TEST(Race, WinnersOfOldSeedsStay) {
  std::vector<float> row(1000);
  for (int i = 0; i < 1000; ++i) row[i] = -static_cast<float>(i * 7919 % 1000) / 64;
  std::vector<int64_t> winners;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{2}, uint64_t{3}, uint64_t{1} << 63, ~uint64_t{0}}) {
    winners.push_back(Race({row.data(), 1000, nullptr}, seed));
  }
  EXPECT_EQ(winners, (std::vector<int64_t>{429, 691, 73, 543, 209, 936}));
  uint64_t all = 0;
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    all = base::Mix64(all ^ static_cast<uint64_t>(Race({row.data(), 1000, nullptr}, seed)));
  }
  EXPECT_EQ(all, 1050479151816105263u);
  EXPECT_EQ(std::bit_cast<uint64_t>(MassOf(row.data(), 1000, {}, 0)), 4634239291817734123u);
  EXPECT_EQ(std::bit_cast<uint64_t>(Log(0.3)), 13831473067500349217u);
}

// With entries this large the smallest step of a time is larger than -ln U.
TEST(Race, EqualTimesGoToTheSmallerId) {
  for (const float huge : {1e30f, -1e30f, std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest()}) {
    const std::vector<float> row(200, huge);
    std::vector<int32_t> ids(200);
    for (int i = 0; i < 200; ++i) ids[i] = 3 * i + 1;
    for (uint64_t seed = 0; seed < 100; ++seed) {
      for (const auto* set : Sets()) {
        ASSERT_EQ(Winner(*set, row, seed), 0) << set->name << " " << huge;
        ASSERT_EQ(Winner(*set, row, seed, ids), 0) << set->name << " " << huge;
      }
    }
  }
}

TEST(Race, WhatMayNotBeDrawnIsNeverDrawn) {
  for (const auto* set : Sets()) {
    EXPECT_EQ(Winner(*set, {}, 1), -1);
    for (const float none : {kNever, kNan}) {
      for (size_t count = 1; count < 50; ++count) {
        EXPECT_EQ(Winner(*set, std::vector<float>(count, none), 1), -1);
        for (size_t only = 0; only < count; ++only) {
          for (const float entry : {0.0f, -5.0f, -1e5f, std::numeric_limits<float>::lowest(), -1e-42f}) {
            std::vector<float> row(count, none);
            row[only] = entry;
            ASSERT_EQ(Winner(*set, row, count), static_cast<int64_t>(only)) << set->name;
          }
        }
      }
    }
  }
}

// At a low temperature a mask may leave ids of e^-100000 alone. Their shares are those of a row that ends at 0.
TEST(Race, AConstantAddedToTheRowChangesNothing) {
  std::vector<float> row(300);
  for (int i = 0; i < 300; ++i) row[i] = -static_cast<float>(i * 37 % 300) / 64;
  for (const float constant : {-100000.0f, -1000.0f, 64.0f, 100000.0f}) {
    std::vector<float> moved = row;
    for (float& entry : moved) entry += constant;  // exact
    for (uint64_t seed = 0; seed < 2000; ++seed) {
      for (const auto* set : Sets()) ASSERT_EQ(Winner(*set, moved, seed), Winner(*set, row, seed)) << set->name;
    }
  }
}

TEST(Race, ListedIdsRaceAsTheyDoInAWholeRow) {
  std::mt19937_64 rng(3);
  for (int r = 0; r < 3000; ++r) {
    const std::vector<float> row = NormalRow(rng, 2000, r % 3 == 0 ? 1 : 20);
    std::vector<float> masked(row.size(), kNever), compact;
    std::vector<int32_t> ids;
    for (size_t id = 0; id < row.size(); ++id) {
      if (rng() % 20 != 0) continue;
      masked[id] = row[id];
      compact.push_back(row[id]);
      ids.push_back(static_cast<int32_t>(id));
    }
    for (const auto* set : Sets()) {
      ASSERT_EQ(ids[Winner(*set, compact, r, ids)], Winner(*set, masked, r));
      ASSERT_EQ(Winner(*set, compact, r, ids), PlainWinner(compact, r, ids));
    }
  }
}

TEST(Race, ACutKeepsThePrefixOfTheLikelyOnes) {
  std::mt19937_64 rng(4);
  for (int r = 0; r < 3000; ++r) {
    std::vector<float> row = NormalRow(rng, 1 + r % 90, 3);
    for (float& entry : row) entry = std::round(entry);  // many equals
    const auto at = static_cast<int64_t>(rng() % row.size());
    const RaceCut cut = {row[at], static_cast<int64_t>(rng() % (row.size() + 3))};
    double mass = 0;
    for (size_t i = 0; i < row.size(); ++i) {
      if (Keeps(cut, row, static_cast<int64_t>(i))) mass += std::exp(static_cast<double>(row[i]) - 20);
    }
    for (const auto* set : Sets()) {
      ASSERT_EQ(Winner(*set, row, r, {}, cut), PlainWinner(row, r, {}, cut)) << set->name;
      ASSERT_NEAR(inner::MassOf(*set, row.data(), std::ssize(row), cut, 20), mass, 1e-6 * mass) << set->name;
    }
  }
}

// Any bits, from a broken model or a wrong caller: the sets still agree, and nothing outside the row is read or drawn.
TEST(Race, InstructionSetsAgreeToTheBitOnAnyRow) {
  std::mt19937_64 rng(5);
  for (int r = 0; r < 20000; ++r) {
    std::vector<float> row(rng() % 100);
    for (float& entry : row) {
      const auto bits = static_cast<uint32_t>(rng());
      std::memcpy(&entry, &bits, sizeof(entry));
      if (r % 2 == 0) entry = std::fmod(entry, 50.0f);
    }
    const auto count = static_cast<int64_t>(row.size());
    const float floor = r % 3 == 0 || row.empty() || !std::isfinite(row[0]) ? RaceCut().floor : row[0];
    const RaceCut cut = {floor, static_cast<int64_t>(rng() % 100)};
    const auto& first = *Sets()[0];
    const int64_t winner = Winner(first, row, r, {}, cut);
    ASSERT_LT(winner, count);
    const float most = row.empty() ? 0 : first.top(row.data(), count);
    const double mass = inner::MassOf(first, row.data(), count, cut, most);
    for (const auto* set : Sets()) {
      ASSERT_EQ(Winner(*set, row, r, {}, cut), winner) << set->name;
      if (row.empty()) continue;
      ASSERT_EQ(set->top(row.data(), count), most) << set->name;
      const double again = inner::MassOf(*set, row.data(), count, cut, most);
      ASSERT_TRUE(again == mass || (std::isnan(again) && std::isnan(mass))) << set->name << " " << again << " " << mass;
    }
  }
}

TEST(Race, MassHasEqualBitsInEverySet) {
  std::mt19937_64 rng(6);
  for (const size_t count : {1, 5, 15, 16, 17, 33, 4096, 50001}) {
    const std::vector<float> row = NormalRow(rng, count, 5);
    const auto n = static_cast<int64_t>(count);
    const RaceCut cut = {-3, n / 3};
    const double mass = inner::MassOf(*Sets()[0], row.data(), n, cut, 30);
    for (const auto* set : Sets()) EXPECT_EQ(inner::MassOf(*set, row.data(), n, cut, 30), mass) << set->name;
  }
}

TEST(Race, TheMostLikelyAndTheNextAboveAFloorAreFound) {
  std::mt19937_64 rng(7);
  for (int r = 0; r < 5000; ++r) {
    std::vector<float> row = NormalRow(rng, 1 + r % 150, 3);
    for (float& entry : row) entry = (r % 3 == 0 ? std::round(entry) : entry) - (r % 2 == 0 ? 0.0f : 20.0f);
    for (float& entry : row) entry = rng() % 10 == 0 ? (rng() % 2 == 0 ? kNever : kNan) : entry;
    const auto count = static_cast<int64_t>(row.size());
    int64_t most = -1;
    for (int64_t i = 0; i < count; ++i) {
      if (row[i] > kNever && (most < 0 || row[i] > row[most])) most = i;
    }
    ASSERT_EQ(MostLikely(row.data(), count), most);
    const float floor = most < 0 ? 0 : row[most] - static_cast<float>(rng() % 3);
    for (const auto* set : Sets()) {
      for (int64_t from = 0; from <= count; ++from) {
        int64_t expected = from;
        while (expected < count && !(row[expected] >= floor)) ++expected;
        ASSERT_EQ(set->next(row.data(), from, count, 0, floor, std::numeric_limits<float>::max()), expected);
      }
    }
  }
  EXPECT_EQ(MostLikely(nullptr, 0), -1);
}

TEST(Race, TheLogarithmIsTheCLibrarysToFourUnits) {
  std::mt19937_64 rng(8);
  const auto check = [](double x) {
    const double expected = std::log(x);
    ASSERT_NEAR(Log(x), expected, 4 * (std::nextafter(std::abs(expected), INFINITY) - std::abs(expected))) << x;
  };
  EXPECT_EQ(Log(1), 0);
  for (int i = 0; i < 200000; ++i) {
    const double unit = std::uniform_real_distribution<double>(0.5, 2)(rng);
    check(unit);
    check(std::ldexp(unit, static_cast<int>(rng() % 2000) - 1000));
    check(1 + (unit - 1) * 1e-9);
  }
  check(std::numeric_limits<double>::min());
  check(std::numeric_limits<double>::max());
}

}  // namespace
}  // namespace ingot::kernels
