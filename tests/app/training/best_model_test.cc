// Which model is the best so far, and that a crash at any moment leaves a whole one.
#include "app/training/best_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/written_files.h"

namespace ingot::app {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class BestModelTest : public ::testing::Test {
 protected:
  static std::string NewFolder() {
    std::string pattern = ::testing::TempDir() + "/best_model_XXXXXX";
    return ::mkdtemp(pattern.data());
  }
  ~BestModelTest() override {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }

  absl::Status Save(int64_t version, const std::string& weights) {
    return best_.Save(version, "c" + std::to_string(version), [&](const std::string& folder) {
      return base::WriteFileDurably(folder + "/model.safetensors", weights);
    });
  }
  bool Offer(int64_t version, double reward, int64_t failed = 0) {
    const auto kept = best_.Offer({.version = version, .reward = reward, .episodes = 4, .failed = failed});
    EXPECT_TRUE(kept.ok()) << kept.status();
    return kept.ok() && *kept;
  }
  // -1 = there is none.
  int64_t Best() {
    const auto best = best_.Best();
    EXPECT_TRUE(best.ok()) << best.status();
    return best.ok() && best->has_value() ? (*best)->version : -1;
  }
  std::vector<std::string> Names(const std::string& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
  std::string Read(const std::string& name) { return base::ReadFile(root_ + "/" + name).value_or("(none)"); }

  const std::string root_ = NewFolder();
  const std::map<std::string, std::string> files_ = {{"tokenizer.json", "{}"}, {"templates/tools.jinja", "x"}};
  BestModel best_{true, root_, files_};
};

TEST_F(BestModelTest, ABetterVersionTakesTheBestsPlaceAndOthersAreDropped) {
  EXPECT_EQ(Best(), -1);
  ASSERT_TRUE(Save(2, "two").ok());
  ASSERT_TRUE(Save(4, "four").ok());
  ASSERT_TRUE(Save(6, "six").ok());
  EXPECT_TRUE(Offer(2, 0.25));
  EXPECT_FALSE(Offer(4, 0.25)) << "of equal rewards the earlier version stays";
  EXPECT_EQ(Read("best/model.safetensors"), "two");
  EXPECT_TRUE(Offer(6, 0.5, 1));
  EXPECT_THAT(Names(root_), ElementsAre("best"));
  EXPECT_THAT(Names(root_ + "/best"),
              ElementsAre("best.json", "checksums.json", "model.safetensors", "templates", "tokenizer.json"));
  EXPECT_EQ(Read("best/model.safetensors"), "six");
  EXPECT_EQ(Read("best/templates/tools.jinja"), "x");
  const auto record = base::ParseJson(Read("best/best.json"));
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(base::PrintJson(*record),
            "{\"version\":6,\"weights_checksum\":\"c6\",\"reward_mean\":0.5,\"episodes\":4,\"failed\":1}");
}

TEST_F(BestModelTest, DamageToTheBestIsFound) {
  ASSERT_TRUE(Save(2, "two").ok());
  ASSERT_TRUE(Offer(2, 0.5));
  const auto written = base::WrittenFiles::Of(root_ + "/best");
  ASSERT_TRUE(written.ok()) << written.status();
  const auto all = [](std::string_view) { return true; };
  EXPECT_TRUE(written->CheckContents(all).ok()) << "its record changed with its reward";
  EXPECT_EQ(written->files().size(), 3u);
  for (const std::string name : {"model.safetensors", "tokenizer.json", "templates/tools.jinja"}) {
    const std::string intact = Read("best/" + name);
    ASSERT_TRUE(base::WriteFileDurably(root_ + "/best/" + name, "y" + intact.substr(1)).ok());
    EXPECT_THAT(std::string(written->CheckContents(all).message()), HasSubstr("best/" + name + " is damaged"));
    ASSERT_TRUE(base::WriteFileDurably(root_ + "/best/" + name, intact).ok());
  }
}

TEST_F(BestModelTest, AVersionWithoutAScoreIsNotTheBest) {
  ASSERT_TRUE(Save(2, "two").ok());
  EXPECT_FALSE(Offer(2, 0, 4)) << "every episode failed";
  ASSERT_TRUE(Save(4, "four").ok());
  EXPECT_FALSE(Offer(4, std::nan("")));
  EXPECT_TRUE(Names(root_).empty());
  ASSERT_TRUE(Save(6, "six").ok());
  EXPECT_TRUE(Offer(6, -1)) << "a bad one is better than none";
}

TEST_F(BestModelTest, AnEvaluationThatIsReportedTwiceCountsOnce) {
  ASSERT_TRUE(Save(2, "two").ok());
  EXPECT_TRUE(Offer(2, 0.5));
  EXPECT_FALSE(Offer(2, 0.5));
  EXPECT_EQ(Read("best/model.safetensors"), "two");
}

// The folder that the candidate replaced has its name until it is removed.
TEST_F(BestModelTest, AReplacedModelIsNoCandidate) {
  ASSERT_TRUE(Save(2, "two").ok());
  ASSERT_TRUE(Offer(2, 0.5));
  ASSERT_TRUE(Save(4, "four").ok());
  ASSERT_TRUE(Offer(4, 0.75));
  fs::copy(root_ + "/best", root_ + "/candidate-00000006", fs::copy_options::recursive);
  EXPECT_FALSE(Offer(6, 1)) << "its weights are version 4's";
  EXPECT_EQ(Best(), 4);
  EXPECT_THAT(Names(root_), ElementsAre("best"));
}

TEST_F(BestModelTest, AHalfWrittenCandidateIsNotKept) {
  ASSERT_TRUE(Save(2, "two").ok());
  ASSERT_TRUE(Offer(2, 0.5));
  const auto crash = best_.Save(4, "c4", [](const std::string& folder) {
    const absl::Status half = base::WriteFileDurably(folder + "/model.safetensors", "fo");
    return half.ok() ? absl::ResourceExhaustedError("the disk is full") : half;
  });
  EXPECT_THAT(std::string(crash.message()), HasSubstr("disk is full"));
  EXPECT_FALSE(Offer(4, 1));
  EXPECT_EQ(Read("best/model.safetensors"), "two");
  ASSERT_TRUE(Save(4, "four").ok());  // a resumed run makes the version again
  EXPECT_TRUE(Offer(4, 1));
  EXPECT_EQ(Read("best/model.safetensors"), "four");
}

TEST_F(BestModelTest, CandidatesOfEndedEvaluationsAreRemovedAndNothingElse) {
  for (const int64_t version : {2, 4, 6}) ASSERT_TRUE(Save(version, "w").ok());
  for (const char* name : {"step-00000002", "candidate-", "candidate-x", "notes"})
    fs::create_directory(root_ + "/" + name);
  ASSERT_TRUE(Offer(2, 0.5));
  best_.DropOthers({6, 8});
  EXPECT_THAT(Names(root_),
              ElementsAre("best", "candidate-", "candidate-00000006", "candidate-x", "notes", "step-00000002"));
}

TEST_F(BestModelTest, WithoutTheKeyNothingIsWritten) {
  const BestModel off(false, root_, files_);
  EXPECT_TRUE(off.Save(2, "c2", [](const std::string&) { return absl::InternalError("called"); }).ok());
  EXPECT_FALSE(*off.Offer({.version = 2, .reward = 1, .episodes = 4}));
  EXPECT_TRUE(Names(root_).empty());
}

TEST_F(BestModelTest, ADamagedRecordLeavesThePlaceToTheNext) {
  ASSERT_TRUE(Save(2, "two").ok());
  ASSERT_TRUE(Offer(2, 0.5));
  ASSERT_TRUE(base::WriteFileDurably(root_ + "/best/best.json", "{\"vers").ok());
  ASSERT_TRUE(Save(4, "four").ok());
  EXPECT_TRUE(Offer(4, 0.25));
  EXPECT_EQ(Read("best/model.safetensors"), "four");
  EXPECT_THAT(Names(root_), ElementsAre("best"));
}

}  // namespace
}  // namespace ingot::app
