// Lists of episodes by condition.
#include "view/runs/listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "view/make_run.h"

namespace ingot::view::listing_test {
namespace {

class ListingTest : public ::testing::Test {
 protected:
  ListingTest() { EXPECT_TRUE(journal_.Refresh(run_.pool()).ok()); }

  base::json::object List(const std::string& query, const ListBounds& bounds = {}, const std::string& after = "") {
    return ListJson(EpisodeFilter::Of(Query::Of("/?" + query)).value(), after, journal_, run_.pool(),
                    *run_.Source().tokenizer, bounds, base::Clock::Real())
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

TEST(EpisodeFilter, NamesTheValueThatItsKeyDoesNotTake) {
  const auto rejected = [](const std::string& query) {
    const absl::Status status = EpisodeFilter::Of(Query::Of("/?" + query)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << query;
    return std::string(status.message());
  };
  EXPECT_EQ(rejected("reward_min=abc"), "reward_min: 'abc' is not a number");
  EXPECT_EQ(rejected("reward_max=nan"), "reward_max: 'nan' is not a number");
  EXPECT_EQ(rejected("step=1.5"), "step: '1.5' is not a whole number");
  EXPECT_EQ(rejected("version=99999999999999999999"), "version: '99999999999999999999' is not a whole number");
  EXPECT_EQ(rejected("group=%1b"), "group: '\\x1b' is not a whole number");
  EXPECT_EQ(rejected("kind=evil"), "kind: 'evil' is not one of: train, eval");
  EXPECT_EQ(rejected("state=ended").substr(0, 36), "state: 'ended' is not one of: open, ");
  // A form sends what is left out as an empty value.
  EXPECT_TRUE(EpisodeFilter::Of(Query::Of("/?reward_min=&step=&kind=&state=")).ok());
  EXPECT_TRUE(EpisodeFilter::Of(Query::Of("/?state=infrastructure+failed")).ok());
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
}  // namespace ingot::view::listing_test
