// Who may name which image: the owner any, a stranger registries and the folders that are listed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "sandbox/image/image.h"
#include "sandbox/image/image_source.h"
#include "sandbox/test_sandbox.h"

namespace ingot::sandbox {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class StrangersSourceTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* const name : {"tasks/one/environment", "tasks/layout/blobs", "private"})
      fs::create_directories(Path(name));
    for (const char* const name : {"tasks/one/image.tar", "tasks/layout/index.json", "private/image.tar"})
      std::ofstream(Path(name)) << "x";
    fs::create_symlink(Path("private/image.tar"), Path("tasks/one/there.tar"));
    fs::create_symlink(Path("private/none.tar"), Path("tasks/one/gone.tar"));
    fs::create_symlink(Path("private"), Path("tasks/out"));
    fs::create_symlink(Path("tasks"), Path("other-name"));
  }
  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }
  // What is said about a source, with its own text left out.
  std::string Said(const std::string& source) const {
    const absl::Status status = ParseStrangersSource(source, {Path("tasks")}).status();
    EXPECT_TRUE(absl::IsPermissionDenied(status)) << source << ": " << status;
    std::string text(status.message());
    const size_t at = text.find(source);
    return at == std::string::npos ? text : text.erase(at, source.size());
  }

  const TestFolder folder_;
};

TEST_F(StrangersSourceTest, ListedFoldersAndRegistriesAreFree) {
  const auto at = [&](const std::string& source) {
    const auto parsed = ParseStrangersSource(source, {Path("none"), Path("tasks") + "/"});
    return parsed.ok() ? parsed->Name() : std::string(parsed.status().message());
  };
  EXPECT_EQ(at("oci-archive:" + Path("tasks/one/image.tar")), "oci-archive:" + Path("tasks/one/image.tar"));
  EXPECT_EQ(at("dockerfile:" + Path("tasks/one/environment/")), "dockerfile:" + Path("tasks/one/environment"));
  EXPECT_EQ(at("oci:" + Path("tasks/../tasks/layout")), "oci:" + Path("tasks/layout"));
  EXPECT_EQ(at("docker://host/name:tag"), "docker://host/name:tag");
  EXPECT_EQ(ParseStrangersSource("oci:" + Path("tasks/layout"), {Path("other-name")})->path, Path("tasks/layout"))
      << "the list's own links count";
}

TEST_F(StrangersSourceTest, WhatIsElsewhereAndWhatIsNotThereAreToldTheSame) {
  const std::string said = Said("oci-archive:" + Path("private/none.tar"));
  EXPECT_THAT(said, HasSubstr("agents.image_folders"));
  for (const std::string& source :
       {"oci-archive:" + Path("private/image.tar"), "oci-archive:" + Path("tasks/one/there.tar"),
        "oci-archive:" + Path("tasks/one/gone.tar"), "oci-archive:" + Path("tasks/one/none.tar"),
        "docker-archive:" + Path("tasks/../private/image.tar"), "oci-archive:" + Path("tasks/out/image.tar"),
        "oci-archive:" + Path("tasks/out/none.tar"), "oci-archive:" + Path("tasks/one/image.tar/below"),
        std::string("folder:/etc"), std::string("folder:/none"), std::string("oci:/root"), std::string("dockerfile:/"),
        "folder:" + Path("tasks-more")}) {
    EXPECT_EQ(Said(source), said) << source;
  }
}

TEST_F(StrangersSourceTest, ALayoutWithALinkIsRejectedWhereverItLeads) {
  fs::create_symlink(Path("private/image.tar"), Path("tasks/layout/blobs/a"));
  const absl::Status there = ParseStrangersSource("oci:" + Path("tasks/layout"), {Path("tasks")}).status();
  fs::remove(Path("tasks/layout/blobs/a"));
  fs::create_symlink(Path("private/none"), Path("tasks/layout/blobs/a"));
  const absl::Status gone = ParseStrangersSource("oci:" + Path("tasks/layout"), {Path("tasks")}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(there)) << there;
  EXPECT_EQ(there, gone);
}

TEST_F(StrangersSourceTest, TheStoreHoldsStrangersToItAndTheOwnerToNothing) {
  ImageStore store(Path("store"), {.folders = {Path("tasks")}});
  EXPECT_TRUE(absl::IsPermissionDenied(store.ResolveStrangers("folder:" + Path("private")).status()));
  EXPECT_TRUE(store.Resolve("folder:" + Path("private")).ok());
  EXPECT_TRUE(absl::IsNotFound(store.Resolve("folder:" + Path("none")).status()));
  EXPECT_TRUE(store.ResolveStrangers("folder:" + Path("tasks/one")).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(store.ResolveStrangers("tarball").status()));
  EXPECT_TRUE(absl::IsNotFound(store.ResolveStrangers("sha256:" + std::string(64, 'a')).status()));
}

}  // namespace
}  // namespace ingot::sandbox
