// Lists of episodes by condition.
#include "view/listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "view/make_run.h"

namespace ingot::view {
namespace {

class ListingTest : public ::testing::Test {
 protected:
  ListingTest() { EXPECT_TRUE(journal_.Refresh(run_.pool()).ok()); }

  base::json::object List(const std::string& query, const ListBounds& bounds = {}, const std::string& after = "") {
    return ListJson(EpisodeFilter::Of(Query::Of("/?" + query)), after, journal_, run_.pool(), *run_.Source().tokenizer,
                    bounds, base::Clock::Real())
        .value();
  }
  std::string Ids(const base::json::object& list) {
    std::string ids;
    for (const auto& episode : list.at("episodes").as_array()) {
      absl::StrAppend(&ids, ids.empty() ? "" : " ", std::string(episode.at("id").as_string()));
    }
    return ids;
  }

  testing::SmallRun run_;
  Journal journal_;
};

TEST_F(ListingTest, TheNewestGroupsComeFirst) {
  EXPECT_EQ(Ids(List("")), "g3s0 g3s1 g2s0 g2s1 g1s0 g1s1 g0s0 g0s1");
  EXPECT_EQ(Ids(List("kind=eval")), "");
}

TEST_F(ListingTest, EveryConditionCounts) {
  EXPECT_EQ(Ids(List("step=0")), "g0s0 g0s1");
  EXPECT_EQ(Ids(List("group=1")), "g1s0 g1s1");
  EXPECT_EQ(Ids(List("reward_min=0.5")), "g2s1 g1s1 g0s1");
  EXPECT_EQ(Ids(List("reward_max=0.5&state=finished")), "g3s0 g2s0 g1s0 g0s0");
  EXPECT_EQ(Ids(List("domain=odd&state=open")), "g3s1");
  EXPECT_EQ(Ids(List("fork=edited")), "g2s0 g2s1");
  EXPECT_EQ(Ids(List("fork=any&reward_min=1")), "g2s1");
  EXPECT_EQ(Ids(List("text=X1")), "g1s0 g1s1");
  EXPECT_EQ(Ids(List("scaffold=other")), "");
  EXPECT_EQ(Ids(List("task=task-2")), "g2s0 g2s1");
}

TEST_F(ListingTest, APageThatIsFullSaysWhereTheNextBegins) {
  const base::json::object first = List("step=0", {.limit = 1});
  EXPECT_EQ(Ids(first), "g0s0 g0s1");  // a group is never divided
  const base::json::object none = List("", {.limit = 100, .time = std::chrono::milliseconds(0)});
  EXPECT_EQ(Ids(none), "");
  EXPECT_EQ(none.at("next"), "3");
  EXPECT_EQ(Ids(List("", {}, "1")), "g1s0 g1s1 g0s0 g0s1");
  EXPECT_FALSE(ListJson({}, "x", journal_, run_.pool(), *run_.Source().tokenizer, {}, base::Clock::Real()).ok());
}

}  // namespace
}  // namespace ingot::view
