// Feedback from its arrival to a round, over a restart.
#include "app/learning/rated_answers.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <fstream>

#include "app/learning/answer_groups.h"
#include "app/learning/opted_in_pool.h"
#include "datapool/make_pool.h"
#include "gateway/api/api_error.h"

namespace ingot::app::rated_answers_test {
namespace {

namespace pools = datapool::testing;

constexpr char kAlice[] = "the-key-of-alice-0123456789", kBob[] = "the-key-of-bob-0123456789";

class RatedAnswersTest : public ::testing::Test {
 protected:
  RatedAnswersTest() : pool_(datapool::OpenPool(pools::QuickOptions(dir_.path() + "/pool")).value()) {
    std::ofstream(File()) << "# users\nalice " << kAlice << "\nbob " << kBob << "\n";
    chmod(File().c_str(), 0600);
    Load({});
  }
  std::string File() const { return dir_.path() + "/users"; }
  void Load(const std::map<std::string, int64_t>& rounds) {
    answers_ = RatedAnswers::Load(*pool_, Users::Read(File()).value(), rounds, 100).value();
    stored_ = MakeOptedInPool(*pool_, *answers_);
  }
  // A conversation of one answer, `id`/0, as the gateway stores it.
  void Converse(const std::string& id, const std::string& user, float temperature = 1) {
    auto open = pools::Open(id, 0, 0, 0, v1::PURPOSE_SERVE);
    open.mutable_episode()->set_metadata_json(gateway::MetadataOfUser(user));
    ASSERT_TRUE(stored_->StoreEpisode(open).ok());
    auto append = pools::Append(id, 0, {pools::Prompt({1, 2})}, {pools::Sampled({3, 4})});
    append.mutable_call()->mutable_sampling()->set_temperature(temperature);
    ASSERT_TRUE(stored_->AppendCall(append).ok());
    ASSERT_TRUE(stored_->StoreEnd(pools::End(id)).ok());
  }
  // "" = stored.
  std::string Give(const std::string& key, const std::string& call, double reward) {
    const absl::Status given = answers_->Give(key, {.call_id = call, .reward = reward, .comment = ""});
    return given.ok() ? "" : gateway::ErrorCodeOf(given);
  }

  pools::TempDir dir_;
  std::unique_ptr<datapool::Client> pool_;
  std::unique_ptr<RatedAnswers> answers_;
  std::unique_ptr<datapool::Client> stored_;
};

TEST_F(RatedAnswersTest, StoresOnlyTheCallsOfUsersWhoOptedIn) {
  Converse("a", "alice");
  Converse("x", "");
  EXPECT_TRUE(pools::Get(*pool_, "a").ok());
  EXPECT_TRUE(absl::IsNotFound(pools::Get(*pool_, "x").status()));
  EXPECT_EQ(Give("no-key", "a/0", 1), "not_opted_in");
  EXPECT_EQ(Give(kAlice, "x/0", 1), "unknown_answer");
  EXPECT_EQ(Give(kBob, "a/0", 1), "unknown_answer");
}

TEST_F(RatedAnswersTest, ReplacesFeedbackUntilARoundHasIt) {
  Converse("a", "alice");
  EXPECT_EQ(Give(kAlice, "a/0", 1), "");
  EXPECT_EQ(Give(kAlice, "a/0", 0.5), "");
  EXPECT_EQ(answers_->waiting().answers, 1);
  EXPECT_TRUE(answers_->Take(2, 1).empty());
  const std::vector<RatedAnswer> taken = answers_->Take(1, 1);
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].reward, 0.5);
  EXPECT_EQ(Give(kAlice, "a/0", 0.5), "");
  EXPECT_EQ(Give(kAlice, "a/0", 1), "feedback_trained");
}

TEST_F(RatedAnswersTest, KeepsAcknowledgedFeedbackOverARestart) {
  Converse("a", "alice");
  Converse("b", "bob");
  EXPECT_EQ(Give(kAlice, "a/0", 1), "");
  EXPECT_EQ(Give(kBob, "b/0", 2), "");
  Load({{"a/0", 1}});
  EXPECT_EQ(answers_->waiting().answers, 1);
  EXPECT_EQ(Give(kAlice, "a/0", 0), "feedback_trained");
  EXPECT_EQ(answers_->Take(1, 2).at(0).call_id, "b/0");
}

TEST_F(RatedAnswersTest, RejectsAnswersThatCannotBeTrainedOn) {
  Converse("a", "alice", 0);
  EXPECT_EQ(Give(kAlice, "a/0", 1), "not_trainable");
}

TEST_F(RatedAnswersTest, GivesAnAnswerAsAGroupOfOne) {
  Converse("a", "alice");
  const auto groups = ReadGroups(*pool_, {{"a/0", "a", 0.5}});
  ASSERT_TRUE(groups.ok()) << groups.status();
  ASSERT_EQ(groups->size(), 1u);
  const v1::EpisodeTree& tree = groups->at(0).episodes(0);
  EXPECT_EQ(tree.episode().reward(), 0.5);
  ASSERT_EQ(tree.calls_size(), 1);
  EXPECT_EQ(tree.segments().size(), 2u);
}

TEST_F(RatedAnswersTest, RejectsAFileOfUsersThatOthersCanRead) {
  chmod(File().c_str(), 0644);
  EXPECT_THAT(std::string(Users::Read(File()).status().message()), ::testing::HasSubstr("chmod 600"));
}

}  // namespace
}  // namespace ingot::app::rated_answers_test
