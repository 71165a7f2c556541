// The reward stage over a real pool: a group is judged once, and answered from its stored grades ever after.
#include "reward/stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "../datapool/make_pool.h"
#include "datapool/store.h"

namespace ingot::reward {
namespace {

namespace pool = datapool::testing;
using ::testing::ElementsAre;

class StageTest : public ::testing::Test {
 protected:
  // Group 3: a right answer of 2 tokens, a right one of 6 and a wrong one of 6.
  void SetUp() override {
    pool_ = *datapool::Store::Open(pool::QuickOptions(dir_.path()));
    Add("a", 1, {1, 2});
    Add("b", 1, {1, 2, 3, 4, 5, 6});
    Add("c", 0, {1, 2, 3, 4, 5, 7});
  }
  void Add(const std::string& id, double outcome, const std::vector<int32_t>& ids) {
    ASSERT_TRUE(pool_->OpenEpisode(pool::Open(id, 3, samples_++)).ok());
    ASSERT_TRUE(pool_->AppendCall(pool::Append(id, 0, {pool::Prompt({9})}, {pool::Sampled(ids)})).ok());
    ASSERT_TRUE(pool_->EndEpisode(pool::End(id, v1::EPISODE_FINISHED, outcome)).ok());
  }
  void AddGroup4() {
    ASSERT_TRUE(pool_->OpenEpisode(pool::Open("e", 4, 0)).ok());
    ASSERT_TRUE(pool_->EndEpisode(pool::End("e", v1::EPISODE_FINISHED, 1)).ok());
  }
  Stage Make(double length_weight) {
    RewardOptions options;
    options.terms.resize(2);
    options.terms[1].kind = "length";
    options.terms[1].weight = length_weight;
    return Stage(*Rule::Make(options, absl::StrCat(length_weight)), *pool_, {.total_steps = 10});
  }
  static v1::GradeRequest Group(int64_t group) {
    v1::GradeRequest request;
    request.set_group_id(group);
    return request;
  }

  pool::TempDir dir_;
  std::unique_ptr<datapool::Store> pool_;
  int samples_ = 0;
};

// By hand: lengths 2 and 6; lambda 0.5 and -0.5.
TEST_F(StageTest, GivesEverySampleItsReturn) {
  const auto graded = Make(0.2).Grade(Group(3));
  ASSERT_TRUE(graded.ok()) << graded.status();
  EXPECT_THAT(graded->returns(), ElementsAre(1.1, 0.9, -0.1));
  EXPECT_FALSE(graded->equal());
  EXPECT_THAT(graded->outcomes(), ElementsAre(1, 1, 0));
}

TEST_F(StageTest, AGroupIsJudgedOnceWhateverIsAskedLater) {
  ASSERT_TRUE(Make(0.2).Grade(Group(3)).ok());
  const auto again = Make(0.4).Grade(Group(3));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_THAT(again->returns(), ElementsAre(1.1, 0.9, -0.1)) << "other weights do not judge a judged group again";
}

TEST_F(StageTest, AnAttemptThatFailedIsNoPartOfTheGroup) {
  ASSERT_TRUE(pool_->OpenEpisode(pool::Open("d", 3, 3)).ok());
  ASSERT_TRUE(pool_->EndEpisode(pool::End("d", v1::EPISODE_FAILED, 5)).ok());
  const auto graded = Make(0.2).Grade(Group(3));
  ASSERT_TRUE(graded.ok()) << graded.status();
  EXPECT_TRUE(std::isnan(graded->returns(3)));
}

class NoScorer final : public ExternalScorer {
 public:
  absl::StatusOr<std::string> Post(const std::string&, const std::string&, double) const override {
    return std::string("no idea");
  }
};

TEST_F(StageTest, TellsWhichTermsJudgedAGroupOrWhichOneFailed) {
  EXPECT_THAT(Make(0.2).Grade(Group(3))->terms(), ElementsAre("outcome", "length"));
  AddGroup4();
  RewardOptions options;
  options.terms.resize(2);
  options.terms[1].kind = "external";
  options.terms[1].name = "mine";
  options.terms[1].external.url = "http://localhost/";
  const TermParts parts{.external = std::make_shared<NoScorer>()};
  const auto graded = Stage(*Rule::Make(options, "", parts), *pool_, {.total_steps = 10}).Grade(Group(4));
  ASSERT_TRUE(graded.ok()) << graded.status();
  EXPECT_THAT(graded->terms(), ElementsAre());
  EXPECT_EQ(graded->failed_term(), "mine");
}

TEST_F(StageTest, AGroupThatThePoolLacksIsAnError) {
  EXPECT_EQ(Make(0.2).Grade(Group(5)).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace ingot::reward
