// The window of a small run, and its journal.
#include "view/json/window_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "view/make_run.h"

namespace ingot::view::window_json_test {
namespace {

TEST(WindowJson, ShowsTheGroupsFromTheHeadOnWithTheirCauses) {
  testing::SmallRun run;
  Journal journal;
  ASSERT_TRUE(journal.Refresh(run.pool()).ok());
  const RunFacts facts = run.Source().facts;
  const int64_t now = base::Clock::Real().UnixNanos() + 5'000'000'000;
  const base::json::object window = WindowJson(facts, journal, run.pool(), now, false).value();
  EXPECT_EQ(window.at("head").to_number<int>(), 2);  // 0 was trained, 1 was dropped
  EXPECT_EQ(window.at("trained").to_number<int>(), 1);
  EXPECT_EQ(window.at("dropped").to_number<int>(), 1);
  EXPECT_EQ(window.at("unreleased"), (base::json::array{0}));  // no version was live yet
  const base::json::array& groups = window.at("groups").as_array();
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].at("state"), "finished");
  EXPECT_GE(groups[0].at("waits_s").to_number<double>(), 4.9);
  EXPECT_EQ(groups[1].at("state"), "open");
  EXPECT_EQ(
      groups[1].at("cause"),
      "1 of 2 samples are running, the oldest for 5 s; sample 1, 1 calls: an agent at work, or an unfinished call 5.0 "
      "s");
  const base::json::object rests = WindowJson(facts, journal, run.pool(), now, true).value();
  EXPECT_EQ(rests.at("groups").as_array()[1].at("cause"),
            "1 of 2 samples are running, the oldest for 5 s; sample 1, 1 calls: agent and its tools 5.0 s");
  EXPECT_TRUE(groups[1].at("straggler").as_bool());  // the others were done within milliseconds
  EXPECT_TRUE(groups[1].at("in_window").as_bool());
  EXPECT_EQ(groups[1].at("samples").as_array().size(), 2u);
}

TEST(Journal, ATrainedGroupHoldsItsSlotUntilItsVersionIsLive) {
  testing::SmallRun run;
  Journal journal;
  ASSERT_TRUE(journal.Refresh(run.pool()).ok());
  EXPECT_EQ(journal.Group(0)->step, 0);
  EXPECT_EQ(journal.Unreleased(), (std::vector<int64_t>{0}));
  v1::AppendJournalRequest live;
  live.add_records()->mutable_live()->set_version(1);
  ASSERT_TRUE(run.pool().AppendJournal(live).ok());
  ASSERT_TRUE(journal.Refresh(run.pool()).ok());
  EXPECT_TRUE(journal.Unreleased().empty());
  EXPECT_GT(journal.Batch(0)->live_ns, 0);
}

}  // namespace
}  // namespace ingot::view::window_json_test
