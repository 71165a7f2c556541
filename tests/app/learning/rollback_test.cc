// Rounds on disk after a crash at any moment, and the operator's request for an earlier version.
#include "app/learning/rollback.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/written_files.h"
#include "datapool/make_pool.h"
#include "trainer/checkpoints/checkpoint.h"

namespace ingot::app::rollback_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RollbackTest : public ::testing::Test {
 protected:
  RollbackTest() : rounds_(Rounds::Open(dir_.path()).value()) {}
  std::string Checkpoint(int64_t version) const {
    return dir_.path() + "/checkpoints/" + trainer::CheckpointName(version);
  }
  // A checkpoint with as many files as VerifyCheckpoint needs.
  void Keep(const std::string& folder, int64_t version) {
    fs::create_directories(folder);
    std::map<std::string, base::FileDigest> files;
    for (const char* name : {"config.json", "model.safetensors", "optimizer.safetensors"}) {
      std::ofstream(folder + "/" + name) << name << version;
      files[name] = base::DigestFile(folder + "/" + name).value();
    }
    const base::json::object state{{"format", "ingot-checkpoint-4"},
                                   {"step", version},
                                   {"next_batch", version},
                                   {"next_group", 0},
                                   {"seed", 1},
                                   {"weights_checksum", "0000000000000000"},
                                   {"optimizer_steps", version},
                                   {"optimizer_shards", 1},
                                   {"files", base::PrintDigests(files)}};
    std::ofstream(folder + "/state.json") << base::Seal(state);
    ASSERT_TRUE(trainer::VerifyCheckpoint(folder).ok()) << trainer::VerifyCheckpoint(folder).status();
  }
  Round Add(Outcome outcome, int64_t version, int64_t restores = -1) {
    Round round;
    round.number = std::ssize(rounds_.all());
    round.from = rounds_.deployed() == nullptr ? 0 : rounds_.deployed()->version;
    round.version = version;
    round.outcome = outcome;
    round.restores = restores;
    EXPECT_TRUE(rounds_.Store(round).ok());
    return round;
  }
  // Versions 0, 2, and 4 are deployed, and 6 was rejected.
  void Serve() {
    for (const int64_t version : {0, 2, 4}) {
      Keep(Checkpoint(version), version);
      Add(Outcome::kDeployed, version);
    }
    Add(Outcome::kRejected, 6);
  }
  // The message of a request that fails.
  std::string Fault(std::optional<int64_t> to) {
    const auto asked = RequestRollback(rounds_, to, 1);
    EXPECT_FALSE(asked.ok());
    return std::string(asked.status().message());
  }

  datapool::testing::TempDir dir_;
  Rounds rounds_;
};

TEST_F(RollbackTest, IsDurableUntilItIsDropped) {
  Serve();
  EXPECT_EQ(PendingRollback(rounds_).value(), std::nullopt);
  ASSERT_TRUE(RequestRollback(rounds_, 2, 77).ok());
  const Rounds reopened = Rounds::Open(dir_.path()).value();
  const std::optional<Rollback> pending = PendingRollback(reopened).value();
  ASSERT_TRUE(pending.has_value());
  EXPECT_EQ(pending->to, 2);
  EXPECT_EQ(pending->requested_unix_ns, 77);
  ASSERT_TRUE(DropRollback(reopened).ok());
  EXPECT_TRUE(DropRollback(reopened).ok());
  EXPECT_EQ(PendingRollback(reopened).value(), std::nullopt);
}

TEST_F(RollbackTest, GoesBackOneTrainedVersionByDefault) {
  Serve();
  EXPECT_THAT(KeptVersions(rounds_), ElementsAre(0, 2, 4));
  EXPECT_EQ(RequestRollback(rounds_, std::nullopt, 1)->to, 2);
  Keep(Checkpoint(5), 5);
  Add(Outcome::kDeployed, 5, /*restores=*/2);
  EXPECT_EQ(RequestRollback(rounds_, std::nullopt, 1)->to, 0) << "the deployed weights are those of version 2";
  EXPECT_EQ(RequestRollback(rounds_, 4, 1)->to, 4);
}

TEST_F(RollbackTest, NamesTheVersionsThatAreKept) {
  EXPECT_THAT(Fault(0), HasSubstr("has not deployed a version yet"));
  Serve();
  EXPECT_THAT(Fault(6), HasSubstr("version 6 is not kept"));
  EXPECT_THAT(Fault(6), HasSubstr("0, 2, 4"));
  EXPECT_THAT(Fault(4), HasSubstr("version 4 is the deployed version"));
  fs::remove_all(Checkpoint(0));
  EXPECT_THAT(Fault(0), HasSubstr("the deployed versions 2, 4"));
  std::ofstream(Checkpoint(2) + "/model.safetensors") << "other";
  EXPECT_TRUE(absl::IsDataLoss(RequestRollback(rounds_, 2, 1).status()));
  fs::remove_all(Checkpoint(2));
  EXPECT_THAT(Fault(std::nullopt), HasSubstr("no version before 4"));
  EXPECT_EQ(PendingRollback(rounds_).value(), std::nullopt);
}

TEST_F(RollbackTest, ADamagedRequestIsAnError) {
  Serve();
  for (const char* text : {"", "{", "{\"to\": 2}", "{\"to\": \"2\", \"requested_unix_ns\": 1}",
                           "{\"to\": -2, \"requested_unix_ns\": 1}"}) {
    std::ofstream(dir_.path() + "/rounds/rollback.json") << text;
    EXPECT_TRUE(absl::IsDataLoss(PendingRollback(rounds_).status())) << text;
  }
}

TEST_F(RollbackTest, ARoundKeepsWhatItRestoresAndWhoJudged) {
  Serve();
  Round round = Add(Outcome::kDeployed, 5, /*restores=*/2);
  round.answers = {{"call", "conversation", 0.5, true}};
  ASSERT_TRUE(rounds_.Store(round).ok());
  const Rounds reopened = Rounds::Open(dir_.path()).value();
  EXPECT_EQ(reopened.deployed()->restores, 2);
  EXPECT_TRUE(reopened.deployed()->answers.at(0).judged);
  EXPECT_EQ(reopened.all().front().restores, -1);
}

TEST_F(RollbackTest, ADecidedRoundIsSettledAfterACrashAtAnyMoment) {
  Keep(Checkpoint(0), 0);
  Add(Outcome::kDeployed, 0);
  const Round round = Add(Outcome::kDeployed, 2);
  const std::string candidate = rounds_.CandidateRoot(1);
  Keep(candidate + "/" + trainer::CheckpointName(2), 2);  // the process died after the decision
  for (int again = 0; again < 2; ++again) {               // and after the move
    ASSERT_TRUE(Rounds::Open(dir_.path())->Settle(round).ok());
    EXPECT_EQ(trainer::LatestCheckpoint(dir_.path() + "/checkpoints")->step, 2);
    EXPECT_FALSE(fs::exists(candidate));
  }
}

TEST_F(RollbackTest, ARejectedRoundsCandidateIsRemoved) {
  Keep(Checkpoint(0), 0);
  Add(Outcome::kDeployed, 0);
  const Round round = Add(Outcome::kRejected, 2);
  Keep(rounds_.CandidateRoot(1) + "/" + trainer::CheckpointName(2), 2);
  ASSERT_TRUE(rounds_.Settle(round).ok());
  EXPECT_EQ(trainer::LatestCheckpoint(dir_.path() + "/checkpoints")->step, 0);
  EXPECT_FALSE(fs::exists(rounds_.CandidateRoot(1)));
}

}  // namespace
}  // namespace ingot::app::rollback_test
