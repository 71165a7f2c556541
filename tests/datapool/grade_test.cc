// Grades of a group: stored once, together, and read with the episodes.
#include <gtest/gtest.h>

#include "datapool/sharded_pool.h"
#include "datapool/stores.h"
#include "tree/episode_return.h"

namespace ingot::datapool {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

class GradeTest : public StoreContract {
 protected:
  // Group 3: two finished episodes with a call each, and one that failed.
  void SetUp() override {
    StoreContract::SetUp();
    if (IsSkipped()) return;
    pool_ = *Store::Open(Options());
    int sample = 0;
    for (const char* id : {"a", "b", "c"}) {
      ASSERT_TRUE(pool_->StoreEpisode(Open(id, 3, sample++)).ok());
      ASSERT_TRUE(pool_->AppendCall(Append(id, 0, {Prompt({1})}, {Sampled({2})})).ok());
      ASSERT_TRUE(pool_->StoreEnd(End(id, id[0] == 'c' ? v1::EPISODE_FAILED : v1::EPISODE_FINISHED)).ok());
    }
  }

  static v1::StoreGradesRequest Grades(const std::map<std::string, double>& rewards) {
    v1::StoreGradesRequest request;
    request.set_group_id(3);
    for (const auto& [id, reward] : rewards) {
      v1::Grade& grade = (*request.mutable_grades())[id];
      grade.set_reward(reward);
      (*grade.mutable_call_rewards())[id + "/0"] = 0.25;
      grade.add_terms()->set_term("outcome");
    }
    return request;
  }
  v1::Episode Stored(const std::string& id) {
    v1::GetEpisodeRequest request;
    request.set_episode_id(id);
    return pool_->GetEpisode(request).value().episode();
  }

  std::unique_ptr<Store> pool_;
};

INSTANTIATE_TEST_SUITE_P(Over, GradeTest, kStores, kStoreName);

TEST_P(GradeTest, AGradeCountsInPlaceOfThePostedReward) {
  const double posted = tree::ReturnOf(Stored("a"));
  ASSERT_TRUE(pool_->StoreGrades(Grades({{"a", 0.5}, {"b", -0.5}})).ok());
  EXPECT_EQ(tree::ReturnOf(Stored("a")), 0.75);
  EXPECT_EQ(Stored("a").reward(), posted) << "the outcome is kept beside the grade";
  EXPECT_EQ(Stored("a").grade().terms(0).term(), "outcome");
  pool_.reset();
  pool_ = *Store::Open(Options());
  EXPECT_EQ(tree::ReturnOf(Stored("b")), -0.25) << "durable";
}

TEST_P(GradeTest, AnEqualGradeIsOkAgainAndAnotherIsRejected) {
  ASSERT_TRUE(pool_->StoreGrades(Grades({{"a", 0.5}})).ok());
  EXPECT_TRUE(pool_->StoreGrades(Grades({{"a", 0.5}})).ok());
  EXPECT_EQ(pool_->StoreGrades(Grades({{"a", 0.6}, {"b", 1}})).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_FALSE(Stored("b").has_grade()) << "all or none";
}

TEST_P(GradeTest, OnlyFinishedEpisodesOfTheGroupGetGrades) {
  EXPECT_EQ(pool_->StoreGrades(Grades({{"a", 1}, {"c", 1}})).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(Stored("a").has_grade());
  EXPECT_EQ(pool_->StoreGrades(Grades({{"nobody", 1}})).code(), absl::StatusCode::kNotFound);
  v1::StoreGradesRequest other = Grades({{"a", 1}});
  other.set_group_id(4);
  EXPECT_EQ(pool_->StoreGrades(other).code(), absl::StatusCode::kFailedPrecondition);
  v1::StoreGradesRequest call = Grades({{"a", 1}});
  (*call.mutable_grades()->at("a").mutable_call_rewards())["b/0"] = 1;
  EXPECT_EQ(pool_->StoreGrades(call).code(), absl::StatusCode::kNotFound) << "a call of another episode";
}

TEST_P(GradeTest, NumbersBeyondTheBoundAreRejected) {
  EXPECT_EQ(pool_->StoreGrades(Grades({{"a", 1e7}})).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(pool_->StoreGrades(Grades({})).code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(GradeTest, ARepeatedEndOfAGradedEpisodeIsStillOk) {
  ASSERT_TRUE(pool_->StoreGrades(Grades({{"a", 0.5}})).ok());
  EXPECT_TRUE(pool_->StoreEnd(End("a", v1::EPISODE_FINISHED)).ok());
  EXPECT_TRUE(Stored("a").has_grade());
}

}  // namespace
}  // namespace ingot::datapool
