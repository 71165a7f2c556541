// The files of `ingot init`.
#include "app/init.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "base/file.h"
#include "datapool/make_pool.h"

namespace ingot::app {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Init, WritesEveryFileOnceAndNamesTheRunAfterItsFolder) {
  const datapool::testing::TempDir dir;
  const std::string folder = dir.path() + "/my run";
  ASSERT_TRUE(WriteInitFiles(folder).ok());
  for (const auto& [name, content] : InitFiles("my-run")) {
    EXPECT_EQ(base::ReadFile(folder + "/" + name).value(), content) << name;
    EXPECT_THAT(content, Not(HasSubstr("@NAME@"))) << name;
  }
  EXPECT_THAT(base::ReadFile(folder + "/run.yaml").value(), HasSubstr("name: my-run"));
}

TEST(Init, NeverReplacesAFileAndThenWritesNone) {
  const datapool::testing::TempDir dir;
  ASSERT_TRUE(base::WriteFileDurably(dir.path() + "/tasks.jsonl", "mine").ok());
  const absl::Status refused = WriteInitFiles(dir.path());
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("tasks.jsonl is there already"));
  EXPECT_FALSE(std::filesystem::exists(dir.path() + "/run.yaml"));
  EXPECT_EQ(base::ReadFile(dir.path() + "/tasks.jsonl").value(), "mine");
}

}  // namespace
}  // namespace ingot::app
