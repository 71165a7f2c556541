#include "app/roles/hidden_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "reward/terms/judge.h"

namespace ingot::app {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class HiddenPathsTest : public ::testing::Test {
 protected:
  HiddenPathsTest() {
    std::string name = ::testing::TempDir() + "/hidden_XXXXXX";
    folder_ = AbsolutePath(mkdtemp(name.data()));
    chmod(folder_.c_str(), 0755);
    std::filesystem::create_directories(runs() + "/a");
    for (const std::string& file : {open(), closed(), runs() + "/a/metrics.jsonl"}) std::ofstream(file) << "x";
    chmod(open().c_str(), 0644);
    chmod(closed().c_str(), 0600);
    chmod(runs().c_str(), 0755);
    chmod((runs() + "/a").c_str(), 0755);
  }
  ~HiddenPathsTest() override { std::filesystem::remove_all(folder_); }

  std::string open() const { return folder_ + "/open"; }
  std::string closed() const { return folder_ + "/closed"; }
  std::string runs() const { return folder_ + "/runs"; }
  std::vector<std::string> Readable(bool own_uid, bool mount_namespace) const {
    sandbox::ProbeResult probe_result;
    probe_result.own_uid = own_uid;
    probe_result.mount_namespace = mount_namespace;
    return ReadableByAgents(probe_result, {open(), closed(), runs(), folder_ + "/missing"});
  }

  std::string folder_;
};

TEST_F(HiddenPathsTest, AMountNamespaceHidesAll) {
  EXPECT_THAT(Readable(true, true), IsEmpty());
  EXPECT_THAT(Readable(false, true), IsEmpty());
}

TEST_F(HiddenPathsTest, LandlocksRulesLeaveThemOut) {
  sandbox::ProbeResult probe_result;
  probe_result.landlock = 4;
  EXPECT_THAT(ReadableByAgents(probe_result, {open(), closed(), runs()}), IsEmpty());
}

TEST_F(HiddenPathsTest, AgentsOfTheSameUidReadAllThatIsThere) {
  EXPECT_THAT(Readable(false, false), ElementsAre(open(), closed(), runs()));
}

TEST_F(HiddenPathsTest, AUidOfItsOwnReadsWhatModesLetOthersRead) {
  EXPECT_THAT(Readable(true, false), ElementsAre(open(), runs()));
  chmod((runs() + "/a").c_str(), 0700);
  EXPECT_THAT(Readable(true, false), ElementsAre(open()));
  chmod(folder_.c_str(), 0750);
  EXPECT_THAT(Readable(true, false), IsEmpty());
}

TEST_F(HiddenPathsTest, FilesOfARunAreItsDataAndItsKeys) {
  RunConfig config;
  EXPECT_THAT(FilesOfRun(config), IsEmpty());
  config.tasks = folder_ + "/x/../open";
  config.more_tasks = {folder_ + "/more"};
  config.gateway.admin_key_file = closed();
  config.gateway.models.push_back({.name = "judge",
                                   .weights = gateway::ModelWeights::kExternal,
                                   .version = 0,
                                   .address = "h:1",
                                   .token_file = folder_ + "/token"});
  config.gateway.models.push_back(
      {.name = "vendor", .address = "", .url = "https://h/v1", .key_file = folder_ + "/vendor.key"});
  config.rewards.terms.emplace_back().Of<reward::JudgeOptions>().server.key_file = folder_ + "/judge.key";
  EXPECT_THAT(FilesOfRun(config), UnorderedElementsAre(open(), folder_ + "/more", closed(), folder_ + "/token",
                                                       folder_ + "/vendor.key", folder_ + "/judge.key"));
}

}  // namespace
}  // namespace ingot::app
