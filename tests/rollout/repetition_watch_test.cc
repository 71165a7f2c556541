// Which sequences of ids count as repeating themselves.
#include "rollout/sampling/repetition_watch.h"

#include <gtest/gtest.h>

#include <functional>

namespace ingot::rollout {
namespace {

constexpr float kCertain = -0.001F, kUnlikely = -1;

// The number of ids after which the watch ends a call; 0 = never, within `count` ids.
int EndsAfter(
    const HaltOptions& options, int count, const std::function<int32_t(int)>& id,
    const std::function<float(int)>& logprob = [](int) { return kUnlikely; }) {
  RepetitionWatch watch(options);
  std::vector<int32_t> ids;
  for (int i = 0; i < count; ++i) {
    ids.push_back(id(i));
    if (watch.Push(ids, logprob(i))) return i + 1;
  }
  return 0;
}

TEST(RepetitionWatch, EndsAPhraseThatComesSixteenTimes) {
  const HaltOptions options;
  EXPECT_EQ(EndsAfter(options, 2000, [](int i) { return i % 5; }), 5 * 16);
  EXPECT_EQ(EndsAfter(options, 2000, [](int i) { return i % 64; }), 64 * 16);
  EXPECT_EQ(EndsAfter(options, 5000, [](int i) { return i % 65; }), 0) << "the phrase is too long";
  EXPECT_EQ(EndsAfter(options, 2000, [](int i) { return i < 100 ? 1000 + i : i % 3; }), 100 + 3 * 16)
      << "it begins anywhere";
}

TEST(RepetitionWatch, ShortRunsOfOneTokenCountUnlessALengthIsAsked) {
  EXPECT_EQ(EndsAfter({}, 2000, [](int) { return 7; }), 16);
  HaltOptions options;
  options.min_repeated = 256;
  EXPECT_EQ(EndsAfter(options, 255, [](int) { return 7; }), 0);
  EXPECT_EQ(EndsAfter(options, 2000, [](int) { return 7; }), 256);
}

TEST(RepetitionWatch, APhraseThatChangesOnceBeginsAnew) {
  const HaltOptions options;
  // Of 15 times and then another id; then 16 times.
  EXPECT_EQ(EndsAfter(options, 2000, [](int i) { return i == 30 ? 9 : i > 30 ? (i - 31) % 2 : i % 2; }), 31 + 32);
}

TEST(RepetitionWatch, EndsAfterManyCertainTokensInARow) {
  HaltOptions options;
  options.certain_tokens = 100;
  const auto different = [](int i) { return i; };
  EXPECT_EQ(EndsAfter(options, 500, different, [](int) { return kCertain; }), 100);
  EXPECT_EQ(EndsAfter(options, 500, different, [](int i) { return i == 50 ? kUnlikely : kCertain; }), 151);
  EXPECT_EQ(EndsAfter(options, 500, different, [](int i) { return i % 100 == 99 ? kUnlikely : kCertain; }), 0);
  EXPECT_EQ(EndsAfter({}, 4000, different, [](int) { return kCertain; }), 3000);
  EXPECT_EQ(EndsAfter({}, 4000, different, [](int) { return -0.0101F; }), 0) << "p is 0.98995";
}

TEST(HaltOptions, ByteLevelModelsAreNotWatchedByThemselves) {
  HaltOptions options;
  EXPECT_FALSE(options.Watches(100000));
  options.repetition = "auto";
  EXPECT_TRUE(options.Watches(32000));
  EXPECT_FALSE(options.Watches(260));
  options.repetition = "on";
  EXPECT_TRUE(options.Watches(260));
}

TEST(HaltOptions, RejectValuesWithoutAMeaning) {
  const auto fault = [](const std::function<void(HaltOptions&)>& change) {
    HaltOptions options;
    change(options);
    return std::string(options.Validate().message());
  };
  EXPECT_NE(fault([](auto& o) { o.repetition = "yes"; }).find("repetition is 'yes'"), std::string::npos);
  EXPECT_NE(fault([](auto& o) { o.certain_above = 1; }).find("certain_above is 1"), std::string::npos);
  EXPECT_NE(fault([](auto& o) { o.periods = 1; }).find("periods is 1"), std::string::npos);
  EXPECT_NE(fault([](auto& o) { o.max_period = 0; }).find("max_period is 0"), std::string::npos);
  EXPECT_EQ(fault([](auto&) {}), "");
}

}  // namespace
}  // namespace ingot::rollout
