#include "weights/ulp_slice.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "weights/change_mask.h"

namespace ingot::weights {
namespace {

using Words = std::vector<uint16_t>;

std::span<std::byte> BytesOf(Words& words) { return std::as_writable_bytes(std::span(words)); }

std::string Encode(const Words& base, const Words& target, int64_t* changed = nullptr) {
  std::string slices[2];
  for (const bool vectors : {false, true}) {
    UlpEncoder encoder(1, vectors);
    const int64_t count = encoder.Encode(std::as_bytes(std::span(base)).data(), std::as_bytes(std::span(target)).data(),
                                         static_cast<int64_t>(base.size()), nullptr, slices[vectors]);
    if (changed != nullptr) *changed = count;
  }
  EXPECT_TRUE(slices[0] == slices[1]) << "vectors write the same bytes";
  return slices[0];
}

absl::Status Decode(const std::string& slice, Words& words) {
  UlpDecoder decoder;
  return decoder.Decode(slice, BytesOf(words));
}

TEST(UlpSlice, TakesEveryBitPatternToEveryOther) {
  // NaNs with payloads, infinities, zeros of both signs and denormals among them: all 2^16, against several shifts.
  Words base(1 << 16);
  for (size_t i = 0; i < base.size(); ++i) base[i] = static_cast<uint16_t>(i);
  for (const uint32_t factor : {1, 3, 257, 40503}) {
    for (const uint32_t shift : {1, 255, 256, 0x7f80, 0x8000, 0xffff}) {
      Words target(base.size());
      for (size_t i = 0; i < base.size(); ++i) target[i] = static_cast<uint16_t>(i * factor + shift);
      int64_t changed = 0;
      const std::string slice = Encode(base, target, &changed);
      EXPECT_EQ(changed, std::count_if(base.begin(), base.end(), [&](uint16_t w) { return target[w] != w; }));
      Words words = base;
      ASSERT_TRUE(Decode(slice, words).ok());
      EXPECT_EQ(words, target);
    }
  }
}

TEST(UlpSlice, CountsRepresentableNumbersAcrossZero) {
  // From -0 to +0, to the least denormals above and below, and from the largest number to infinity: one step each, so
  // that the lengths are zeros.
  const Words base = {0x8000, 0x0000, 0x8000, 0x7f7f};
  const Words target = {0x0000, 0x0001, 0x8001, 0x7f80};
  // count 4; gap stream of 4 bytes as it is; signs: only the third goes down; length stream of 4 bytes as it is.
  const std::string expected("\x04\x04\x00\x00\x00\x00\x00\x04\x04\x00\x00\x00\x00\x00", 14);
  EXPECT_EQ(Encode(base, target), expected);
}

TEST(UlpSlice, HasNoBytesWithoutAChange) {
  const Words words(1000, 0x3f80);
  int64_t changed = -1;
  EXPECT_EQ(Encode(words, words, &changed), "");
  EXPECT_EQ(changed, 0);
}

TEST(UlpSlice, ReachesWordsAfterLongGaps) {
  for (const size_t at : {0, 254, 255, 256, 509, 510, 511, 99999}) {
    Words base(100000, 0x3f80), target = base;
    target[at] = 0x3f81;
    target.back() = 0x3f7f;
    Words words = base;
    ASSERT_TRUE(Decode(Encode(base, target), words).ok()) << at;
    EXPECT_EQ(words, target) << at;
  }
}

TEST(UlpSlice, TakesAboutTenBitsForEachOfOnePercent) {
  // The positions alone carry 8.1 bits each, the directions one.
  std::mt19937_64 rng(3);
  Words base(1 << 20), target;
  for (uint16_t& word : base) word = static_cast<uint16_t>(0x3c00 + rng() % 0x400);
  target = base;
  int64_t changed = 0;
  for (uint16_t& word : target) {
    if (rng() % 100 != 0) continue;
    word = static_cast<uint16_t>(word + (rng() % 2 == 0 ? 1 : -1));
    ++changed;
  }
  const std::string slice = Encode(base, target);
  EXPECT_LT(static_cast<double>(slice.size()) * 8 / static_cast<double>(changed), 9.6);
}

// Whatever the bytes, decoding ends with an error or with words of the same number, and reads nothing outside.
TEST(UlpSlice, HasTheSameBytesByVectors) {
  if (!UlpEncoder::HasVectors()) GTEST_SKIP() << "the processor has no vectors that pick bytes out";
  std::mt19937_64 rng(23);
  for (const double density : {0.001, 0.01, 0.3, 0.99}) {
    for (const size_t size : {1, 63, 64, 65, 1000, 70001}) {
      Words base(size), target;
      for (uint16_t& word : base) word = static_cast<uint16_t>(rng());
      target = base;
      std::vector<uint64_t> marks((size + 63) / 64);
      std::bernoulli_distribution changes(density), far(0.02), marked(0.1);
      for (size_t i = 0; i < size; ++i) {
        const bool changed = changes(rng);
        if (changed) target[i] = static_cast<uint16_t>(far(rng) ? rng() : base[i] + 1 + rng() % 3);
        if (changed || marked(rng)) marks[i / 64] |= uint64_t{1} << (i % 64);
      }
      std::string slices[2];
      int64_t counts[2] = {};
      for (const bool vectors : {false, true}) {
        UlpEncoder encoder(1, vectors);
        counts[vectors] = encoder.Encode(BytesOf(base).data(), BytesOf(target).data(), static_cast<int64_t>(size),
                                         marks.data(), slices[vectors]);
      }
      EXPECT_EQ(counts[0], counts[1]);
      ASSERT_TRUE(slices[0] == slices[1]) << density << " of " << size;
      Words words = base;
      if (counts[0] > 0) {
        ASSERT_TRUE(Decode(slices[1], words).ok());
      }
      EXPECT_EQ(words, target);
    }
  }
}

TEST(UlpSlice, SurvivesHostileBytes) {
  std::mt19937_64 rng(5);
  Words base(3000);
  for (uint16_t& word : base) word = static_cast<uint16_t>(rng());
  Words target = base;
  for (size_t i = 0; i < target.size(); i += 1 + rng() % 40) target[i] = static_cast<uint16_t>(target[i] + rng() % 300);
  const std::string good = Encode(base, target);
  UlpDecoder decoder;
  int rejected = 0;
  constexpr int kRounds = 60000;
  for (int round = 0; round < kRounds; ++round) {
    std::string bad = round % 3 == 0 ? std::string(rng() % 60, '\0') : good;
    if (round % 3 == 0) {
      for (char& byte : bad) byte = static_cast<char>(rng() % (round % 2 == 0 ? 256 : 8));
    } else if (rng() % 4 == 0) {
      bad.resize(rng() % (bad.size() + 1));
    }
    for (int edits = 1 + static_cast<int>(rng() % 3); edits > 0 && !bad.empty(); --edits) {
      bad[rng() % bad.size()] ^= static_cast<char>(1 << rng() % 8);
    }
    Words words = base;
    rejected += !decoder.Decode(bad, BytesOf(words)).ok();
  }
  EXPECT_GT(rejected, kRounds / 2);
}

TEST(UlpSlice, RejectsWhatIsNoSlice) {
  Words words(100, 0);
  const auto code = [&](std::string bytes) { return Decode(bytes, words).code(); };
  const auto of = [](std::initializer_list<int> bytes) {
    std::string text;
    for (const int byte : bytes) text.push_back(static_cast<char>(byte));
    return text;
  };
  EXPECT_TRUE(Decode(of({1, 1, 0, 99, 0, 1, 0, 0}), words).ok());
  EXPECT_EQ(words[99], 1);
  EXPECT_EQ(code(""), absl::StatusCode::kDataLoss);
  EXPECT_EQ(code(of({0})), absl::StatusCode::kDataLoss) << "no change";
  EXPECT_EQ(code(of({101, 1, 0, 0, 0, 1, 0, 0})), absl::StatusCode::kDataLoss) << "more changes than words";
  EXPECT_EQ(code(of({1, 1, 0, 100, 0, 1, 0, 0})), absl::StatusCode::kDataLoss) << "past the last word";
  EXPECT_EQ(code(of({1, 1, 0, 255, 0, 1, 0, 0})), absl::StatusCode::kDataLoss) << "a gap without an end";
  EXPECT_EQ(code(of({1, 1, 0, 9, 0, 1, 0, 255})), absl::StatusCode::kDataLoss) << "a length without its bytes";
  EXPECT_EQ(code(of({1, 1, 0, 9, 0, 1, 0, 0, 0})), absl::StatusCode::kDataLoss) << "bytes behind the end";
  EXPECT_EQ(code(of({1, 2, 0, 9, 9, 0, 1, 0, 0})), absl::StatusCode::kDataLoss) << "more gaps than changes";
  EXPECT_EQ(code(of({1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 0, 0})), absl::StatusCode::kDataLoss)
      << "a stream of 2^64 bytes";
}

TEST(Varint, ComesBack) {
  for (const uint64_t value : {uint64_t{0}, uint64_t{127}, uint64_t{128}, uint64_t{1} << 35, ~uint64_t{0}}) {
    std::string bytes;
    AppendVarint(value, bytes);
    std::string_view rest = bytes;
    EXPECT_EQ(TakeVarint(rest).value(), value);
    EXPECT_TRUE(rest.empty());
    rest = std::string_view(bytes).substr(0, bytes.size() - 1);
    EXPECT_FALSE(TakeVarint(rest).ok());
  }
  std::string_view too_long("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02");
  EXPECT_FALSE(TakeVarint(too_long).ok());
}

}  // namespace
}  // namespace ingot::weights
