// Recorded alternatives of sampled ids: how many there are, and how they are printed.
#include "tree/alternatives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tree/makers.h"

namespace ingot::tree {
namespace {

using testing::HasSubstr;

// Records two alternatives per id: the id itself, and the next one.
v1::Segment WithAlternatives(v1::Segment segment) {
  for (const int32_t id : segment.token_ids()) {
    segment.add_alternative_ids(id + 1);
    segment.add_alternative_logprobs(-0.25f);
    segment.add_alternative_ids(id);
    segment.add_alternative_logprobs(-0.5f);
  }
  return segment;
}

TEST(AlternativesPerIdTest, ListsThatDoNotFitAreToldFromAbsentOnes) {
  EXPECT_EQ(AlternativesPerId(4, 0, 0), 0);
  EXPECT_EQ(AlternativesPerId(4, 12, 12), 3);
  EXPECT_EQ(AlternativesPerId(0, 0, 0), 0);
  EXPECT_EQ(AlternativesPerId(4, 12, 11), -1);
  EXPECT_EQ(AlternativesPerId(4, 10, 10), -1);
  EXPECT_EQ(AlternativesPerId(0, 1, 1), -1);
}

TEST(RenderAlternativesTest, EverySampledTokenHasALine) {
  v1::EpisodeTree tree;
  AddCall(tree, {Prompt({'a'})}, {WithAlternatives(Sampled({'c', '\n'}, 3)), Sampled({'e'}, 4)});
  EXPECT_EQ(*RenderAlternatives(tree, Letters),
            "call 0\n"
            "  0 \"c\" -0.500  of \"d\" -0.250, *\"c\" -0.500\n"
            "  1 \"\\n\" -0.500  of \"\\x0b\" -0.250, *\"\\n\" -0.500\n"
            "  2 \"e\" -0.500\n");
}

TEST(RenderAlternativesTest, ARecordWithoutThemSaysHowToRecordThem) {
  v1::EpisodeTree tree;
  AddCall(tree, {Prompt({'a'})}, {Sampled({'c'}, 3)});
  EXPECT_THAT(*RenderAlternatives(tree, Letters), HasSubstr("rollout.record_alternatives"));
}

TEST(RenderAlternativesTest, DamagedRecordsAreNamedOrShownWithoutAlternatives) {
  v1::Segment damaged = WithAlternatives(Sampled({'c', 'd'}, 3));
  damaged.mutable_alternative_logprobs()->RemoveLast();
  v1::EpisodeTree tree;
  AddCall(tree, {Prompt({'a'})}, {damaged});
  EXPECT_THAT(*RenderAlternatives(tree, Letters), HasSubstr("no alternatives"));
  tree.mutable_segments()->clear();
  EXPECT_EQ(RenderAlternatives(tree, Letters).status().code(), absl::StatusCode::kDataLoss);
}

// Merging and training read the same path with and without a record of alternatives.
TEST(AlternativesTest, PathsAndKeysAreThoseWithoutThem) {
  const v1::Segment plain = Sampled({'c', 'd'}, 3), recorded = WithAlternatives(plain);
  EXPECT_EQ(SegmentKey(recorded), SegmentKey(plain));
  v1::EpisodeTree with, without;
  AddCall(with, {Prompt({'a'})}, {recorded});
  AddCall(without, {Prompt({'a'})}, {plain});
  const CallPath a = CallPathOf(with, 0).value(), b = CallPathOf(without, 0).value();
  EXPECT_EQ(a.Tokens(), b.Tokens());
  EXPECT_EQ(a.logprobs, b.logprobs);
  EXPECT_EQ(a.versions, b.versions);
}

}  // namespace
}  // namespace ingot::tree
