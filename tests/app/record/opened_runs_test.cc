// Runs that a folder's page keeps open.
#include "app/record/opened_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "datapool/make_pool.h"

namespace ingot::app {
namespace {

class OpenedRunsTest : public ::testing::Test {
 protected:
  std::string Folder(const std::string& name, const std::string& config) {
    const std::string folder = dir_.path() + "/" + name;
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/config.yaml") << config;
    return folder;
  }

  datapool::testing::TempDir dir_;
  int opens_ = 0;
  absl::Status fault_;
  OpenedRuns runs_{[this](const std::string&) -> absl::StatusOr<view::OpenedRun> {
    ++opens_;
    if (!fault_.ok()) return fault_;
    return view::OpenedRun{};
  }};
};

TEST_F(OpenedRunsTest, ARunIsOpenedAgainAfterItsConfigurationChanged) {
  const std::string folder = Folder("a", "one");
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(runs_.Of(folder).ok());
  EXPECT_EQ(opens_, 1);
  Folder("a", "two");
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(runs_.Of(folder).ok());
  EXPECT_EQ(opens_, 2);
}

TEST_F(OpenedRunsTest, AFailureIsNotKept) {
  const std::string folder = Folder("a", "one");
  fault_ = absl::UnavailableError("being written");
  EXPECT_FALSE(runs_.Of(folder).ok());
  fault_ = absl::OkStatus();
  EXPECT_TRUE(runs_.Of(folder).ok());
}

TEST_F(OpenedRunsTest, TheRunThatWasNotUsedForLongestIsClosed) {
  const std::string first = Folder("first", "");
  for (size_t i = 0; i < OpenedRuns::kMaxOpen; ++i) {
    EXPECT_TRUE(runs_.Of(first).ok());
    EXPECT_TRUE(runs_.Of(Folder("run" + std::to_string(i), "")).ok());
  }
  EXPECT_EQ(opens_, 1 + static_cast<int>(OpenedRuns::kMaxOpen));
  EXPECT_TRUE(runs_.Of(first).ok());
  EXPECT_EQ(opens_, 1 + static_cast<int>(OpenedRuns::kMaxOpen));
  EXPECT_TRUE(runs_.Of(Folder("run0", "")).ok());
  EXPECT_EQ(opens_, 2 + static_cast<int>(OpenedRuns::kMaxOpen));
}

}  // namespace
}  // namespace ingot::app
