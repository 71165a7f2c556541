#include "weights/change_mask.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace ingot::weights {
namespace {

bool IsMarked(const ChangeMask& mask, int64_t word) {
  return (mask.entries()[static_cast<size_t>(word / 64)] >> (word % 64) & 1) != 0;
}

TEST(ChangeMask, ComparisonMarksExactlyTheWordsThatDiffer) {
  std::mt19937_64 rng(1);
  for (const int64_t words : {1, 63, 64, 65, 127, 128, 1000, 4096}) {
    std::vector<uint16_t> a(static_cast<size_t>(words)), b;
    for (uint16_t& word : a) word = static_cast<uint16_t>(rng());
    b = a;
    for (uint16_t& word : b) word ^= static_cast<uint16_t>(rng() % 3 == 0 ? 1 << rng() % 16 : 0);
    const auto* from = std::as_bytes(std::span(a)).data();
    const auto* to = std::as_bytes(std::span(b)).data();
    ChangeMask mask(words);
    CompareWords(from, to, words, mask.entries().data());
    int64_t changed = 0;
    for (int64_t i = 0; i < words; ++i) {
      const bool differs = a[static_cast<size_t>(i)] != b[static_cast<size_t>(i)];
      EXPECT_EQ(IsMarked(mask, i), differs) << i << " of " << words;
      changed += differs;
    }
    int64_t marked = 0;
    for (const uint64_t entry : mask.entries()) marked += std::popcount(entry);
    EXPECT_EQ(marked, changed) << "bits behind the last word are 0";
    EXPECT_EQ(CountChangedWords(from, to, mask.entries()), changed);
  }
}

uint16_t Rounded(float value) {
  uint16_t word = 0x1234;  // of no number below
  uint64_t entry = 0;
  RoundToBfloat16(&value, 1, &word, &word, &entry);
  EXPECT_EQ(entry, 1u);
  return word;
}

TEST(ChangeMask, RoundsToTheNearestAndTiesToEven) {
  EXPECT_EQ(Rounded(1.0f), 0x3f80);
  EXPECT_EQ(Rounded(std::bit_cast<float>(0x3f808000u)), 0x3f80);  // half way: to the even one, below
  EXPECT_EQ(Rounded(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(Rounded(std::bit_cast<float>(0x3f818000u)), 0x3f82);  // half way: to the even one, above
  EXPECT_EQ(Rounded(-0.0f), 0x8000);
  EXPECT_EQ(Rounded(std::bit_cast<float>(0x7f7fffffu)), 0x7f80);  // the largest float rounds to infinity
  EXPECT_EQ(Rounded(-std::numeric_limits<float>::infinity()), 0xff80);
  EXPECT_EQ(Rounded(std::bit_cast<float>(0x7f800001u)), 0x7fc0);  // a NaN stays one
  EXPECT_EQ(Rounded(std::bit_cast<float>(0xffffffffu)), 0x7fc0);
  EXPECT_EQ(Rounded(std::bit_cast<float>(0x00000001u)), 0x0000);
}

TEST(ChangeMask, RoundingAddsTheMarksOfSeveralUpdates) {
  constexpr int64_t kWords = 64 * 3 + 17;
  std::vector<float> master(kWords, 1.0f);
  std::vector<uint16_t> words(kWords, 0x3f80);
  ChangeMask mask(kWords);
  const auto round = [&] { RoundToBfloat16(master.data(), kWords, words.data(), words.data(), mask.entries().data()); };
  round();
  for (const uint64_t entry : mask.entries()) EXPECT_EQ(entry, 0u);
  master[5] = 1.001f;  // rounds to 1 still
  master[70] = 1.01f;
  round();
  master[70] = 1.0f;  // back again: marked all the same
  master[kWords - 1] = 2.0f;
  round();
  for (int64_t i = 0; i < kWords; ++i) EXPECT_EQ(IsMarked(mask, i), i == 70 || i == kWords - 1) << i;
  EXPECT_EQ(words[70], 0x3f80);
  EXPECT_EQ(words[kWords - 1], 0x4000);

  std::vector<uint16_t> other(kWords, 0x1234);  // as is memory of another version
  ChangeMask since(kWords);
  master[6] = 4.0f;
  RoundToBfloat16(master.data(), kWords, words.data(), other.data(), since.entries().data());
  for (int64_t i = 0; i < kWords; ++i) EXPECT_EQ(IsMarked(since, i), i == 6) << i;
  EXPECT_EQ(words[6], 0x3f80) << "the words before stay";
  words[6] = 0x4080;
  EXPECT_EQ(other, words) << "all words are written";
}

}  // namespace
}  // namespace ingot::weights
