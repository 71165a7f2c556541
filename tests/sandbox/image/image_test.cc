// Images from an archive that the test makes itself, and sandboxes on them.
#include "sandbox/image/image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "sandbox/test_image.h"
#include "sandbox/test_sandbox.h"
#include "test_paths.h"

namespace ingot::sandbox {
namespace {

using testing::HasSubstr;

class ImageTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!MakeTestImage(folder_.path())) GTEST_SKIP() << "needs skopeo, umoci and busybox-static";
  }
  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }

  const TestFolder folder_;
};

TEST_F(ImageTest, AnArchiveIsUnpackedOnceAndSandboxesRunOnIt) {
  ImageStore store(Path("store"));
  const auto image = store.Resolve("docker-archive:" + Path("image.tar"));
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->env.at("GREETING"), "hello");
  EXPECT_EQ(image->working_dir, "/app");
  const auto time = std::filesystem::last_write_time(image->rootfs + "/..");
  EXPECT_EQ(store.Resolve("docker-archive:" + Path("image.tar"))->rootfs, image->rootfs);
  EXPECT_EQ(ImageStore(Path("store")).Resolve(image->digest)->rootfs, image->rootfs);
  EXPECT_EQ(std::filesystem::last_write_time(image->rootfs + "/.."), time) << "it was not unpacked again";

  SubstrateOptions options;
  options.work_root = Path("work");
  options.isolation = "auto";
  options.visible = {Path("store")};
  const auto substrate = LocalSubstrate::Make(options);
  ASSERT_TRUE(substrate.ok()) << substrate.status();
  if (!(*substrate)->probe_result().layers) GTEST_SKIP() << "this machine grants no sandboxes with images";
  SandboxOptions wish;
  wish.image = image->rootfs;
  wish.binds = {{"logs", "/logs"}, {"tests", "/tests"}};
  const auto sandbox = (*substrate)->Prepare(wish);
  ASSERT_TRUE(sandbox.ok()) << sandbox.status();
  const Command command{
      .argv = {"sh", "-c",
               "cat greeting; id -u; echo changed > greeting; echo new > /bin/new; cat greeting; ls /usr 2>&1; "
               "echo 1 > /logs/reward; echo kept > \"$WORK/f\""},
      .env = {{"PATH", "/bin"}, {"WORK", (*sandbox)->work()}},
      .working_dir = image->working_dir,
      .stdin_text = ""};
  const auto outcome = (*sandbox)->Run(command, Limits{}, nullptr);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_THAT(outcome->out, HasSubstr("from the image\n0\nchanged\n")) << outcome->err;
  EXPECT_THAT(outcome->out, HasSubstr("No such file")) << "the machine's /usr is not there";
  EXPECT_EQ((*sandbox)->ReadBound("logs", "reward", 100).value(), "1\n");
  EXPECT_EQ((*sandbox)->ReadFile("f", 100).value(), "kept\n");
  // Another sandbox, and the store, have the image as it was; a fork has the changes.
  const Command look{.argv = {"sh", "-c", "cat /app/greeting; ls /bin/new 2>&1"},
                     .env = {{"PATH", "/bin"}},
                     .working_dir = "/",
                     .stdin_text = ""};
  EXPECT_THAT((*substrate)->Prepare(wish).value()->Run(look, Limits{}, nullptr)->out, HasSubstr("from the image\n"));
  const auto snapshot = (*sandbox)->TakeSnapshot();
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  SandboxOptions fork;
  fork.from = *snapshot;
  const auto leaf = (*substrate)->Prepare(fork);
  ASSERT_TRUE(leaf.ok()) << leaf.status();
  EXPECT_EQ((*leaf)->Run(look, Limits{}, nullptr)->out, "changed\n/bin/new\n");
  // Of the image's root an archive has what changed, and marks where files are gone.
  const std::string changes = Path("changes");
  const Command removes{
      .argv = {"/bin/busybox", "rm", "/app/greeting"}, .env = {{"PATH", "/bin"}}, .working_dir = "/", .stdin_text = ""};
  ASSERT_TRUE((*leaf)->Run(removes, Limits{}, nullptr)->ok());
  Unpack(**(*leaf)->TakeSnapshot(), changes);
  EXPECT_TRUE(std::filesystem::exists(changes + "/root/bin/new"));
  EXPECT_TRUE(std::filesystem::exists(changes + "/root/app/.wh.greeting"));
  EXPECT_FALSE(std::filesystem::exists(changes + "/root/bin/sh")) << "that is the image's";
  // Files of the task's owner arrive when the agent is gone.
  std::filesystem::create_directories(Path("judge"));
  std::ofstream(Path("judge/test.sh")) << "cat /app/greeting > /logs/seen\n";
  ASSERT_TRUE((*sandbox)->FillBound("tests", Path("judge")).ok());
  const Command judge{
      .argv = {"sh", "/tests/test.sh"}, .env = {{"PATH", "/bin"}}, .working_dir = "/", .stdin_text = ""};
  ASSERT_TRUE((*sandbox)->Run(judge, Limits{}, nullptr)->ok());
  EXPECT_EQ((*sandbox)->ReadBound("logs", "seen", 100).value(), "changed\n");
}

TEST_F(ImageTest, LayersMayBeCompressedByZstd) {
  const std::string copy =
      absl::StrCat("skopeo --insecure-policy copy --dest-compress-format zstd docker-archive:", Path("image.tar"),
                   " oci:", Path("zstd"), ":image >/dev/null 2>&1");
  ASSERT_EQ(std::system(copy.c_str()), 0);
  ImageStore store(Path("store"));
  const auto image = store.Resolve("oci:" + Path("zstd"));
  ASSERT_TRUE(image.ok()) << image.status();
  std::string text;
  std::getline(std::ifstream(image->rootfs + "/app/greeting"), text);
  EXPECT_EQ(text, "from the image");
  EXPECT_EQ(image->env.at("GREETING"), "hello");
  EXPECT_EQ(ImageStore(Path("store")).Resolve("oci:" + Path("zstd"))->rootfs, image->rootfs);
}

TEST(PlaceInTest, LinksLeadNowhereOutOfTheRoot) {
  const TestFolder folder;
  const std::string& root = folder.path();
  std::filesystem::create_directories(root + "/srv/app");
  for (const auto& [target, name] :
       {std::pair("/srv/app", "app"), {"../../../..", "up"}, {"loop", "loop"}, {"srv", "s"}})
    std::filesystem::create_symlink(target, root + "/" + name);
  EXPECT_EQ(PlaceIn(root, "/app"), "/srv/app");
  EXPECT_EQ(PlaceIn(root, "/app/../app/./new/folder/"), "/srv/app/new/folder");
  EXPECT_EQ(PlaceIn(root, "/up/s/app"), "/srv/app");
  EXPECT_EQ(PlaceIn(root, "/up"), "/");
  EXPECT_EQ(PlaceIn(root, "/loop"), "/loop");
}

// What a fork of a room on the image sees, whose root folder is pristine but for `kept`.
class PristineTest : public ImageTest {
 protected:
  void SetUp() override {
    ImageTest::SetUp();
    if (IsSkipped()) return;
    ImageStore store(Path("store"));
    image_ = store.Resolve("docker-archive:" + Path("image.tar")).value();
    SubstrateOptions options;
    options.work_root = Path("work");
    options.images = Path("store");
    substrate_ = LocalSubstrate::Make(options).value();
    if (!substrate_->probe_result().layers) GTEST_SKIP() << "this machine grants no sandboxes with images";
    SandboxOptions wish;
    wish.image = image_.rootfs;
    sandbox_ = substrate_->Prepare(wish).value();
  }
  std::string Run(Sandbox& sandbox, const std::string& script) const {
    const Command command{
        .argv = {"sh", "-c", script}, .env = {{"PATH", "/bin"}}, .working_dir = "/", .stdin_text = ""};
    const auto outcome = sandbox.Run(command, Limits{}, nullptr);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return outcome.ok() ? outcome->out + outcome->err : "";
  }
  // A fork now; takes a snapshot.
  std::unique_ptr<Sandbox> Fork(const std::string& kept) {
    SandboxOptions wish;
    wish.from = sandbox_->TakeSnapshot().value();
    wish.is_pristine = true;
    wish.kept_folder = kept;
    auto fork = substrate_->Prepare(wish);
    EXPECT_TRUE(fork.ok()) << fork.status();
    return fork.ok() ? *std::move(fork) : nullptr;
  }

  Image image_;
  std::unique_ptr<Substrate> substrate_;
  std::unique_ptr<Sandbox> sandbox_;
};

// A verifier sandbox is such a fork: no program that it starts is one that the agent put there.
TEST_F(PristineTest, AForkHasTheImagesOwnShellAndTheWorkFolder) {
  const std::string attack =
      "echo made > /app/made; echo changed > /app/greeting; mkdir /app/d; echo x > /app/d/x; echo w > \"$1\"; "
      "echo note > /etc/note; /bin/busybox rm /bin/cat; "
      "printf '#!/bin/busybox sh\\necho fooled\\n' > /tmp/evil; /bin/busybox chmod 755 /tmp/evil; "
      "/bin/busybox cp /tmp/evil /bin/fake; /bin/busybox mv /bin/fake /bin/sh";
  EXPECT_EQ(Run(*sandbox_, "set -- " + sandbox_->work() + "/w; " + attack), "");
  const auto judge = Fork("/app");
  ASSERT_NE(judge, nullptr);
  EXPECT_EQ(Run(*judge, "cat /app/made /app/greeting /app/d/x " + judge->work() + "/w; ls /etc; ls /tmp/evil 2>&1"),
            "made\nchanged\nx\nw\nls: /tmp/evil: No such file or directory\n")
      << "the image's own shell ran";
  // All changes of a usual fork are there: it is fooled.
  SandboxOptions usual;
  usual.from = sandbox_->TakeSnapshot().value();
  EXPECT_EQ(Run(*substrate_->Prepare(usual).value(), "echo honest"), "fooled\n");
  EXPECT_EQ(Run(*Fork(""), "cat /app/greeting; ls /app"), "from the image\ngreeting\n");
}

TEST_F(PristineTest, AWorkFolderThatWasRemovedReplacedOrMadeAnewIsSeenSo) {
  // Removed and made anew, over two snapshots.
  Run(*sandbox_, "busybox rm -r /app; busybox mkdir /app; echo 1 > /app/one");
  EXPECT_EQ(Run(*Fork("/app"), "ls /app"), "one\n") << "the image's greeting is gone";
  Run(*sandbox_, "echo 2 > /app/two; busybox rm /app/one");
  EXPECT_EQ(Run(*Fork("/app"), "ls /app"), "two\n");
  // A folder below one that was made anew.
  Run(*sandbox_, "busybox mkdir -p /app/a/b; echo 3 > /app/a/b/three");
  EXPECT_EQ(Run(*Fork("/app/a/b"), "ls /app/a/b; ls /app"), "three\na\ngreeting\n");
  // Links in its place lead nowhere.
  Run(*sandbox_, "busybox rm -r /app; busybox ln -s /bin /app");
  EXPECT_EQ(Run(*Fork("/app"), "ls -A /app; busybox test -d /app && echo folder"), "folder\n");
  Run(*sandbox_, "busybox rm /app");
  EXPECT_EQ(Run(*Fork("/app"), "ls -A /app"), "");
}

// The agent cannot know where its verifier sandbox mounts folders, but may guess.
TEST_F(PristineTest, WhateverAnAgentLeavesWhereAForkMountsFoldersMakesWay) {
  Run(*sandbox_, "busybox ln -s /bin /tests; echo file > /logs; busybox mkdir -p /deep; busybox ln -s /bin /deep/link");
  SandboxOptions wish;
  wish.from = sandbox_->TakeSnapshot().value();
  wish.binds = {{"tests", "/tests"}, {"logs", "/logs"}, {"more", "/deep/link/below"}};
  for (const bool is_pristine : {false, true}) {
    wish.is_pristine = is_pristine;
    wish.kept_folder = "/deep";
    const auto judge = substrate_->Prepare(wish);
    ASSERT_TRUE(judge.ok()) << judge.status();
    EXPECT_EQ(Run(**judge, "echo 1 > /logs/reward; echo 2 > /tests/t; echo 3 > /deep/link/below/m; ls /bin/t 2>&1"),
              "ls: /bin/t: No such file or directory\n");
    EXPECT_EQ((*judge)->ReadBound("logs", "reward", 100).value_or(""), "1\n");
    EXPECT_EQ((*judge)->ReadBound("more", "m", 100).value_or(""), "3\n");
  }
  EXPECT_EQ(Run(*sandbox_, "cat /logs; busybox readlink /tests"), "file\n/bin\n") << "the agent's sandbox has them yet";
}

// It is deeper than any path is long: one chain of folders hangs in another one.
TEST_F(PristineTest, AForkHasAWorkFolderOfAnyDepth) {
  const auto chain = [](char name) {
    std::string path(1, name);
    for (int i = 0; i < 14; ++i) path += "/" + std::string(200, name);
    return path;
  };
  const std::string x = chain('x'), y = chain('y');
  EXPECT_EQ(
      Run(*sandbox_, "cd /app; busybox mkdir -p " + x + " " + y + "; echo leaf > " + x + "/leaf; busybox mv x " + y),
      "");
  const auto judge = Fork("/app");
  ASSERT_NE(judge, nullptr);
  EXPECT_EQ(Run(*judge, "cd /app/" + y + "; cat " + x + "/leaf"), "leaf\n");
}

TEST_F(ImageTest, FaultsNameTheImage) {
  ImageStore store(Path("store"));
  EXPECT_THAT(std::string(store.Resolve("docker-archive:" + Path("nothing.tar")).status().message()),
              HasSubstr("nothing.tar"));
  EXPECT_THAT(std::string(store.Resolve("tarball").status().message()), HasSubstr("oci-archive:FILE"));
  std::ofstream(Path("broken.tar")) << "no archive";
  const auto broken = store.Resolve("oci-archive:" + Path("broken.tar"));
  EXPECT_FALSE(broken.ok());
  EXPECT_THAT(std::string(broken.status().message()),
              testing::AllOf(HasSubstr("broken.tar"), HasSubstr("skopeo failed")));
}

class LayoutTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v skopeo umoci >/dev/null 2>&1") != 0) GTEST_SKIP() << "needs skopeo and umoci";
    std::filesystem::create_directories(Path("outside"));
    std::ofstream(Path("outside/secret")) << "secret";
    const std::string make = INGOT_SOURCE_DIR "/tests/sandbox/make_images.py";
    ASSERT_EQ(std::system(absl::StrCat("python3 ", make, " ", folder_.path()).c_str()), 0);
  }
  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }
  std::string Read(const std::string& path) const {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  std::string Rejection(const std::string& source) {
    ImageStore store(Path("store"), {.limits = {.disk = {.bytes = 64 << 20, .files = 10'000}}});
    return std::string(store.Resolve(source).status().message());
  }
  // Nothing of an image may come to where its links lead.
  void ExpectOutsideAsItWas() const {
    EXPECT_EQ(Read(Path("outside/secret")), "secret");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(Path("outside")), {}), 1);
    EXPECT_EQ(std::filesystem::hard_link_count(Path("outside/secret")), 1u);
  }

  const TestFolder folder_;
};

TEST_F(LayoutTest, LayersAreLaidOverEachOtherByTheSpecification) {
  ImageStore store(Path("store"));
  const auto image = store.Resolve("oci:" + Path("layers"));
  ASSERT_TRUE(image.ok()) << image.status();
  const auto at = [&](const char* name) { return image->rootfs + "/" + name; };
  EXPECT_TRUE(std::filesystem::exists(at("d/kept")));
  EXPECT_FALSE(std::filesystem::exists(at("d/gone"))) << "a whiteout";
  EXPECT_FALSE(std::filesystem::exists(at("o/old"))) << "an opaque folder";
  EXPECT_EQ(Read(at("o/new")), "new");
  EXPECT_FALSE(std::filesystem::exists(at("d/.wh.gone")));
  EXPECT_TRUE(std::filesystem::equivalent(at("one"), at("two")));
  EXPECT_TRUE(std::filesystem::equivalent(at("one"), at("three"))) << "of the layer below";
  EXPECT_EQ(std::filesystem::read_symlink(at("abs")), "/one");
  EXPECT_EQ(Read(at("absolute")), "absolute");
  EXPECT_EQ(Read(at("dotted")), "dotted");
  EXPECT_EQ(image->working_dir, "/d");
}

TEST_F(LayoutTest, MembersThatLeadOutOfTheRootStayInsideOrAreRejected) {
  EXPECT_THAT(Rejection("oci:" + Path("escape")), testing::AllOf(HasSubstr("escape"), HasSubstr("stolen: link")));
  ExpectOutsideAsItWas();
  EXPECT_TRUE(std::filesystem::is_empty(Path("store/sources"))) << "nothing is remembered of it";
}

TEST_F(LayoutTest, WrongDigestsAreRejectedByName) {
  EXPECT_THAT(Rejection("oci:" + Path("digest")),
              testing::AllOf(HasSubstr("digest"), HasSubstr("Digest did not match")));
  EXPECT_THAT(Rejection("oci:" + Path("diff_id")), HasSubstr("diffid mismatch"));
}

TEST_F(LayoutTest, AnImageThatIsTooLargeIsRejectedAndLeavesNothing) {
  EXPECT_THAT(Rejection("oci:" + Path("bomb")), HasSubstr("larger than the store's limits"));
  for (const auto& entry : std::filesystem::directory_iterator(Path("store")))
    EXPECT_THAT(entry.path().filename().string(), testing::AnyOf("sources", "users")) << "the scratch folder goes";
}

TEST_F(LayoutTest, AnImageThatUnpacksToManyTimesItsArchiveIsStopped) {
  ImageStore store(Path("store"), {.limits = {.ratio = 200, .free_bytes = 16 << 20}});
  const auto sparse = store.Resolve("oci:" + Path("sparse"));
  EXPECT_TRUE(absl::IsResourceExhausted(sparse.status())) << sparse.status();
  EXPECT_THAT(std::string(sparse.status().message()),
              testing::AllOf(HasSubstr("unpacks to more than 16777216 bytes"), HasSubstr("200 times its size")));
  EXPECT_TRUE(store.Resolve("oci:" + Path("layers")).ok()) << "what is small needs no ratio";
  for (const auto& entry : std::filesystem::directory_iterator(Path("store")))
    EXPECT_FALSE(entry.path().filename().string().starts_with("unpack-")) << "the scratch folder goes";
}

TEST_F(LayoutTest, RoomStaysOnTheDiskWhoeverTakesTheRest) {
  ImageStore store(Path("store"), {.limits = {.reserve_bytes = int64_t{1} << 60}});
  const auto full = store.Resolve("oci:" + Path("layers"));
  EXPECT_TRUE(absl::IsResourceExhausted(full.status())) << full.status();
  EXPECT_THAT(
      std::string(full.status().message()),
      testing::AllOf(HasSubstr("bytes left"), HasSubstr("1152921504606846976 free"), HasSubstr("agents.image_store")));
  ImageStore roomy(Path("store"), {.limits = {.reserve_bytes = 0}});
  const auto image = roomy.Resolve("oci:" + Path("layers"));
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_TRUE(store.Resolve(image->digest).ok()) << "what is unpacked is there";
}

TEST_F(LayoutTest, PrivilegesOfFilesAreDroppedAndDevicesAreNone) {
  ImageStore store(Path("store"));
  const auto image = store.Resolve("oci:" + Path("devices"));
  ASSERT_TRUE(image.ok()) << image.status();
  const auto mode = std::filesystem::status(image->rootfs + "/suid").permissions();
  EXPECT_EQ(mode & std::filesystem::perms::set_uid, std::filesystem::perms::none);
  EXPECT_EQ(mode & std::filesystem::perms::owner_exec, std::filesystem::perms::owner_exec);
  EXPECT_FALSE(std::filesystem::is_character_file(image->rootfs + "/null"));
}

// The wall mounts /proc, /dev and /tmp into the image.
TEST_F(LayoutTest, LinksInPlaceOfMountsLeadNoSandboxOut) {
  ImageStore store(Path("store"));
  const auto image = store.Resolve("oci:" + Path("mounts"));
  ASSERT_TRUE(image.ok()) << image.status();
  SubstrateOptions options;
  options.work_root = Path("work");
  options.visible = {Path("store")};
  const auto substrate = LocalSubstrate::Make(options);
  ASSERT_TRUE(substrate.ok()) << substrate.status();
  if (!(*substrate)->probe_result().layers) GTEST_SKIP() << "this machine grants no sandboxes with images";
  SandboxOptions wish;
  wish.image = image->rootfs;
  wish.binds = {{"work", "/home/user"}};
  const auto sandbox = (*substrate)->Prepare(wish);
  EXPECT_THAT(std::string(sandbox.status().message()), HasSubstr("symbolic links"));
  ExpectOutsideAsItWas();
}

}  // namespace
}  // namespace ingot::sandbox
