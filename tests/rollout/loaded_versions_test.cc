#include "rollout/engine/loaded_versions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace ingot::rollout {
namespace {

using ::testing::ElementsAre;

// The checksum names the weights. No test needs the weights themselves.
LoadedVersion Loaded(int64_t number, uint64_t checksum) {
  auto version = std::make_shared<WeightVersion>();
  version->version = number;
  version->checksum = checksum;
  return {std::move(version), nullptr};
}

// The checksums of all versions that are held.
std::vector<uint64_t> Held(const LoadedVersions& versions) {
  std::vector<uint64_t> checksums;
  for (const WeightVersion* version : versions.All()) checksums.push_back(version->checksum);
  return checksums;
}

TEST(LoadedVersionsTest, NothingIsPinnedBeforeTheFirstWeights) {
  const LoadedVersions versions(2);
  EXPECT_EQ(versions.newest_number(), -1);
  EXPECT_EQ(versions.Pin(0).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Held(versions), ElementsAre());
}

TEST(LoadedVersionsTest, TheNewestAndTheRetainedVersionsArePinned) {
  LoadedVersions versions(2);
  versions.SetNewest(Loaded(1, 10));
  versions.ReplaceRetained(/*retain=*/true);
  EXPECT_EQ(versions.SetNewest(Loaded(2, 20)).at(0).version->checksum, 10u) << "for the caller to free";
  versions.ReplaceRetained(/*retain=*/false);
  versions.SetNewest(Loaded(3, 30));
  EXPECT_THAT(Held(versions), ElementsAre(10, 30));
  EXPECT_EQ((*versions.Pin(1))->checksum, 10u);
  EXPECT_EQ((*versions.Pin(3))->checksum, 30u);
  EXPECT_EQ(versions.Pin(2).status().code(), absl::StatusCode::kNotFound) << "nobody asked to retain it";
}

TEST(LoadedVersionsTest, TheLastVersionsAreKeptForEpisodes) {
  const auto dropped = [](const std::vector<LoadedVersion>& versions) {
    std::vector<int64_t> numbers;
    for (const LoadedVersion& one : versions) numbers.push_back(one.version->version);
    return numbers;
  };
  LoadedVersions versions(/*max_retained=*/1, /*max_earlier=*/2);
  EXPECT_EQ(versions.Prefer(1), nullptr);
  EXPECT_THAT(dropped(versions.SetNewest(Loaded(1, 10))), ElementsAre());
  EXPECT_THAT(dropped(versions.SetNewest(Loaded(2, 20))), ElementsAre());
  EXPECT_THAT(dropped(versions.SetNewest(Loaded(3, 30))), ElementsAre());
  EXPECT_EQ(versions.Prefer(1)->checksum, 10u);
  EXPECT_EQ(versions.Prefer(3)->checksum, 30u);
  EXPECT_EQ(versions.Prefer(-1), nullptr);
  EXPECT_EQ(versions.Pin(1).status().code(), absl::StatusCode::kNotFound) << "it may be dropped at any time";
  EXPECT_THAT(Held(versions), ElementsAre(30));
  EXPECT_THAT(dropped(versions.SetNewest(Loaded(4, 40))), ElementsAre(1));
  EXPECT_EQ(versions.Prefer(1), nullptr);
  // A run that went back makes versions 3 and 4 again, with other weights.
  EXPECT_THAT(dropped(versions.SetNewest(Loaded(3, 31))), ElementsAre(4, 3));
  EXPECT_EQ(versions.Prefer(2)->checksum, 20u);
  EXPECT_EQ(versions.Prefer(3)->checksum, 31u);
  EXPECT_EQ(versions.Prefer(4), nullptr);
}

// As while an evaluation of an earlier version runs.
TEST(LoadedVersionsTest, AnEpisodeMayPreferARetainedVersion) {
  LoadedVersions versions(/*max_retained=*/2, /*max_earlier=*/1);
  versions.SetNewest(Loaded(1, 10));
  versions.ReplaceRetained(/*retain=*/true);
  for (const int64_t number : {2, 3}) {
    versions.SetNewest(Loaded(number, 10 * static_cast<uint64_t>(number)));
    versions.ReplaceRetained(/*retain=*/false);
  }
  EXPECT_EQ(versions.Prefer(2)->checksum, 20u) << "kept for episodes";
  ASSERT_NE(versions.Prefer(1), nullptr) << "retained";
  EXPECT_EQ(versions.Prefer(1)->checksum, 10u);
  versions.Release(1);
  EXPECT_EQ(versions.Prefer(1), nullptr);
  ASSERT_TRUE(versions.Add(Loaded(4, 40)));
  EXPECT_EQ(versions.Prefer(4), nullptr) << "not served yet";
}

TEST(LoadedVersionsTest, APinGetsTheLatestPushOfItsNumber) {
  LoadedVersions versions(2);
  versions.SetNewest(Loaded(1, 10));
  ASSERT_TRUE(versions.Add(Loaded(1, 11)));  // pushed after it, to be held beside
  EXPECT_EQ((*versions.Pin(1))->checksum, 11u);
  EXPECT_THAT(Held(versions), ElementsAre(11));
  // The number is served with other weights, which nobody retains.
  versions.SetNewest(Loaded(1, 12));
  EXPECT_EQ(versions.ReplaceRetained(/*retain=*/false).version->checksum, 11u);
  EXPECT_EQ((*versions.Pin(1))->checksum, 12u);
}

TEST(LoadedVersionsTest, ARepeatedPushKeepsWhatIsRetained) {
  LoadedVersions versions(2);
  versions.SetNewest(Loaded(1, 10));
  versions.ReplaceRetained(/*retain=*/true);
  versions.SetNewest(Loaded(1, 10));
  EXPECT_EQ(versions.ReplaceRetained(/*retain=*/false).version, nullptr);
  EXPECT_TRUE(versions.Retains(1, 10));
  EXPECT_FALSE(versions.Retains(1, 11));
}

TEST(LoadedVersionsTest, RoomIsForNewNumbersUntilOneIsReleased) {
  LoadedVersions versions(1);
  EXPECT_TRUE(versions.HasRoom(1));
  LoadedVersion other = Loaded(1, 11);
  ASSERT_TRUE(versions.Add(Loaded(1, 10)));
  EXPECT_FALSE(versions.Add(std::move(other)));
  EXPECT_EQ(other.version->checksum, 11u) << "a version that is not taken stays the caller's";  // NOLINT
  EXPECT_FALSE(versions.HasRoom(2));
  EXPECT_TRUE(versions.HasRoom(1)) << "it takes its own place";
  EXPECT_EQ(versions.Retain(std::move(other)).version->checksum, 10u);
  EXPECT_EQ(versions.Release(1).version->checksum, 11u);
  EXPECT_EQ(versions.Release(1).version, nullptr);
  EXPECT_TRUE(versions.HasRoom(2));
}

}  // namespace
}  // namespace ingot::rollout
