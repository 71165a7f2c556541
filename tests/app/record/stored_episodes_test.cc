#include "app/record/stored_episodes.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "datapool/make_pool.h"

namespace ingot::app {
namespace {

namespace pools = datapool::testing;

constexpr int kSamples = 40;  // of a task of 1 MiB each: more than the pool gives in one answer

class StoredEpisodesTest : public ::testing::Test {
 protected:
  StoredEpisodesTest() : pool_(datapool::OpenPool(pools::QuickOptions(dir_.path())).value()) {
    for (int sample = 0; sample < kSamples; ++sample) Open(absl::StrCat("e", sample), sample, 0);
    Open("again", kSamples - 1, 1);
    EXPECT_TRUE(pool_->StoreEpisode(pools::Open("next", 8, 0)).ok());
  }
  void Open(const std::string& id, int sample, int attempt) {
    auto open = pools::Open(id, 7, sample, attempt);
    open.mutable_episode()->mutable_task()->set_payload_json(std::string(1 << 20, 'x'));
    ASSERT_TRUE(pool_->StoreEpisode(open).ok());
  }

  pools::TempDir dir_;
  std::unique_ptr<datapool::Client> pool_;
};

std::vector<std::string> IdsOf(const EpisodeList& list) {
  std::vector<std::string> ids;
  for (const v1::Episode& episode : list.episodes) ids.push_back(episode.episode_id());
  return ids;
}

TEST_F(StoredEpisodesTest, VisitsEveryAttemptInOrderWhateverTheirSize) {
  std::vector<std::string> ids;
  ASSERT_TRUE(VisitEpisodes(*pool_, v1::PURPOSE_TRAIN, [&ids](const v1::Episode& episode) {
                ids.push_back(episode.episode_id());
              }).ok());
  ASSERT_EQ(ids.size(), kSamples + 2u);
  for (int i = 0; i < kSamples; ++i) EXPECT_EQ(ids[i], absl::StrCat("e", i));
  EXPECT_THAT(std::vector(ids.end() - 2, ids.end()), ::testing::ElementsAre("again", "next"));
}

TEST_F(StoredEpisodesTest, ListsTheNewestGroupsFirst) {
  const EpisodeList three = NewestEpisodes(*pool_, v1::PURPOSE_TRAIN, 3, {}).value();
  EXPECT_THAT(IdsOf(three), ::testing::ElementsAre("next", absl::StrCat("e", kSamples - 1), "again"));
  EXPECT_TRUE(three.more);
  const EpisodeList all = NewestEpisodes(*pool_, v1::PURPOSE_TRAIN, 0, {}).value();
  EXPECT_EQ(all.episodes.size(), kSamples + 2u);
  EXPECT_FALSE(all.more);
}

TEST_F(StoredEpisodesTest, ListsTheSessionsThatWereOpenedLast) {
  int64_t opened = 100;
  for (const char* id : {"b", "c", "a"}) {  // not in id order, which is the pool's order
    auto open = pools::Open(id, 0, 0, 0);
    open.mutable_episode()->set_purpose(v1::PURPOSE_SERVE);
    open.mutable_episode()->set_opened_unix_ns(++opened);
    ASSERT_TRUE(pool_->StoreEpisode(open).ok());
  }
  const EpisodeList two = NewestEpisodes(*pool_, v1::PURPOSE_SERVE, 2, {}).value();
  EXPECT_THAT(IdsOf(two), ::testing::ElementsAre("a", "c"));
  EXPECT_TRUE(two.more);
}

TEST_F(StoredEpisodesTest, AListIsNarrowedByItsFilter) {
  ASSERT_TRUE(pool_->StoreEnd(pools::End("e3", v1::EPISODE_FINISHED, 0.75)).ok());
  ASSERT_TRUE(pool_->StoreEnd(pools::End("e4", v1::EPISODE_FINISHED, 0.25)).ok());
  EpisodeFilter filter;
  filter.min_reward = 0.5;
  EXPECT_THAT(IdsOf(*NewestEpisodes(*pool_, v1::PURPOSE_TRAIN, 0, filter)), ::testing::ElementsAre("e3"));
  filter = {};
  filter.max_reward = 0.5;
  EXPECT_THAT(IdsOf(*NewestEpisodes(*pool_, v1::PURPOSE_TRAIN, 0, filter)), ::testing::ElementsAre("e4"))
      << "an open episode has no reward yet";
  filter = {};
  filter.groups = {8};
  EXPECT_THAT(IdsOf(*NewestEpisodes(*pool_, v1::PURPOSE_TRAIN, 0, filter)), ::testing::ElementsAre("next"));
  filter = {};
  filter.domain = "another";
  EXPECT_TRUE(NewestEpisodes(*pool_, v1::PURPOSE_TRAIN, 0, filter)->episodes.empty());
}

TEST_F(StoredEpisodesTest, FindsTheNewestAttemptOfASampleInALargeGroup) {
  EXPECT_EQ(*ResolveEpisode(*pool_, "7/0"), "e0");
  EXPECT_EQ(*ResolveEpisode(*pool_, "7/38"), "e38");
  EXPECT_EQ(*ResolveEpisode(*pool_, "7/39"), "again");
  EXPECT_EQ(*ResolveEpisode(*pool_, "8/0"), "next");
  EXPECT_EQ(ResolveEpisode(*pool_, "7/40").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ResolveEpisode(*pool_, "9/0").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ResolveEpisode(*pool_, "7/").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(*ResolveEpisode(*pool_, "an-id/7"), "an-id/7");
}

}  // namespace
}  // namespace ingot::app
