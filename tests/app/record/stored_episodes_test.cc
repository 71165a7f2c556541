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

TEST_F(StoredEpisodesTest, VisitsUpToTheLimitWhateverTheirSize) {
  constexpr int kAll = kSamples + 2;
  for (const int limit : {0, 1, 36, kAll - 1, kAll, 1000}) {
    std::vector<std::string> ids;
    const auto more = VisitEpisodes(*pool_, v1::PURPOSE_TRAIN, limit,
                                    [&ids](const v1::Episode& episode) { ids.push_back(episode.episode_id()); });
    ASSERT_TRUE(more.ok()) << more.status();
    const int wanted = limit == 0 ? kAll : std::min(limit, kAll);
    ASSERT_EQ(static_cast<int>(ids.size()), wanted) << "limit " << limit;
    EXPECT_EQ(*more, wanted < kAll) << "limit " << limit;
    for (int i = 0; i < std::min(wanted, kSamples); ++i) EXPECT_EQ(ids[i], absl::StrCat("e", i));
    if (wanted < kAll) continue;
    EXPECT_THAT(std::vector(ids.end() - 2, ids.end()), ::testing::ElementsAre("again", "next"));
  }
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
