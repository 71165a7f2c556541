#include "tree/segment_key.h"

#include <gtest/gtest.h>

#include <set>

#include "tree/makers.h"

namespace ingot::tree {
namespace {

TEST(SegmentKeyTest, EqualContentGivesEqualKeysOf16Bytes) {
  EXPECT_EQ(SegmentKey(Sampled({1, 2}, 3)), SegmentKey(Sampled({1, 2}, 3)));
  EXPECT_EQ(SegmentKey(Prompt({})).size(), 16u);
}

TEST(SegmentKeyTest, EveryFieldCounts) {
  v1::Segment mixed = Sampled({1, 2}, 3);
  mixed.mutable_versions(0)->set_kv_mixed(true);
  v1::Segment split = Sampled({1, 2}, 3);
  split.mutable_versions(0)->set_count(1);
  *split.add_versions() = split.versions(0);
  v1::Segment bare = Sampled({1, 2}, 3);
  bare.set_source(v1::SOURCE_PROMPT);
  v1::Segment zero = Sampled({1, 2}, 3, 0.0f), minus_zero = Sampled({1, 2}, 3, -0.0f);
  std::set<std::string> keys;
  for (const v1::Segment& segment :
       {Sampled({1, 2}, 3), mixed, split, bare, zero, minus_zero, Sampled({2, 1}, 3), Sampled({1, 2}, 4),
        Sampled({1, 2}, 3, -0.6f), Prompt({1, 2}), Prompt({1}), Prompt({1, 2, 0}), Prompt({}),
        WithImage({1, 2}, 0, 1, "image-01"), WithImage({1, 2}, 1, 1, "image-01"), WithImage({1, 2}, 0, 2, "image-01"),
        WithImage({1, 2}, 0, 1, "image-02"), WithImage({1, 2}, 0, 1, "image-010")}) {
    EXPECT_TRUE(keys.insert(SegmentKey(segment)).second);
  }
  EXPECT_EQ(SegmentKey(WithImage({1, 2}, 0, 1, "image-01")), SegmentKey(WithImage({1, 2}, 0, 1, "image-01")));
}

// Engines that are not bit-equal may record other routes for equal ids; the log-probs tell the segments apart.
TEST(SegmentKeyTest, RoutesDoNotCount) {
  v1::Segment routed = Sampled({1, 2}, 3);
  routed.set_routes(std::string(8, '\1'));
  EXPECT_EQ(SegmentKey(routed), SegmentKey(Sampled({1, 2}, 3)));
}

// Stored pools name segments by these keys: a change makes them unreadable.
TEST(SegmentKeyTest, KeysNeverChange) {
  EXPECT_EQ(base::Hex(SegmentKey(Sampled({1, 2}, 3))), "97f71c1dbf0c72e1ffb7f5a6feeb3b57");
  EXPECT_EQ(base::Hex(SegmentKey(Prompt({1, 2}))), "1dd4f0605752f64e401f7506a5b5882d");
  EXPECT_EQ(base::Hex(SegmentKey(WithImage({1, 2}, 0, 1, "image-01"))), "ce95ca62707693cff8c0337587f3a901");
}

}  // namespace
}  // namespace ingot::tree
