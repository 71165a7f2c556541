#include "base/tag_bound.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/record_name.h"
#include "base/status.h"

namespace ingot::base {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(TagBound, NamesWithoutTextFromOutsideStay) {
  TagBound bound(1);
  Scalars line;
  for (int i = 0; i < 100; ++i) line.emplace_back(absl::StrCat("perf/part_", i), i);
  EXPECT_EQ(bound.Bound(line).scalars, line);
  EXPECT_EQ(bound.Bound(line).others, 0u);
}

TEST(TagBound, FurtherValuesOfALabelAreOneMean) {
  TagBound bound(2);
  const auto bounded =
      bound.Bound({{"signal/a", 1}, {"signal/b", 2}, {"signal/c", 3}, {"reward/mean", 9}, {"signal/d", 5}});
  EXPECT_THAT(bounded.scalars,
              ElementsAre(Pair("signal/a", 1), Pair("signal/b", 2), Pair("signal/other", 4), Pair("reward/mean", 9)));
  EXPECT_EQ(bounded.others, 2u);
  // The first ones keep their names, and another metric has a bound of its own.
  EXPECT_THAT(bound.Bound({{"signal/d", 5}, {"signal/b", 6}, {"reward/mean@domain:d", 7}}).scalars,
              ElementsAre(Pair("signal/other", 5), Pair("signal/b", 6), Pair("reward/mean@domain:d", 7)));
}

TEST(TagBound, ProductsOfLabelsAreBoundedToo) {
  constexpr int kMax = 20;
  TagBound bound(kMax);
  std::set<std::string> names;
  for (int i = 0; i < 3 * kMax; ++i) {
    for (int k = 0; k < 3 * kMax; ++k) {
      for (const auto& [name, value] : bound.Bound({{absl::StrCat("signal/s", i, "@domain:d", k), 1}}).scalars) {
        names.insert(name);
      }
    }
  }
  EXPECT_LE(names.size(), 10u * kMax + 1);
  EXPECT_TRUE(names.contains("signal/other@domain:other"));
}

TEST(TagBound, ANameIsWrittenAsItWasRead) {
  for (const char* name : {"reward/mean", "signal/a", "signal/a/b@domain:x@y", "num_turns/mean@scaffold:s", "signal/",
                           "eval/pass@4@set:aime", "eval/reward_mean@domain:x@set:y"}) {
    EXPECT_EQ(WriteRecordName(ReadRecordName(name)), name);
  }
}

TEST(TagBound, ASetIsALabelOfEvaluationsAlone) {
  EXPECT_EQ(ReadRecordName("eval/pass@4@set:aime").metric, "eval/pass@4");
  EXPECT_EQ(ReadRecordName("eval/pass@4@set:aime").labels.at("set"), "aime");
  EXPECT_EQ(ReadRecordName("reward/batch_mean@role:white").labels.at("role"), "white");
  EXPECT_EQ(ReadRecordName("signal/a@role:b").labels.at("name"), "a@role:b");
  EXPECT_EQ(ReadRecordName("signal/a@set:b").labels.at("name"), "a@set:b");
}

}  // namespace
}  // namespace ingot::base
