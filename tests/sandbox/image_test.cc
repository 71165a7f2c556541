// Images from an archive that the test makes itself, and rooms on them.
#include "sandbox/image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "sandbox/test_room.h"

namespace ingot::sandbox {
namespace {

using testing::HasSubstr;

// A docker archive of one layer: a static shell, a file, an environment and a working folder.
constexpr char kMakeArchive[] = R"(set -e
cd "$1"; mkdir -p layer/bin layer/app layer/etc layer/tmp
cp /bin/busybox layer/bin/busybox; ln -s busybox layer/bin/sh; ln -s busybox layer/bin/cat; ln -s busybox layer/bin/id
ln -s busybox layer/bin/ls
echo "from the image" > layer/app/greeting
tar -C layer --owner=0 --group=0 -cf layer.tar .
sum=$(sha256sum layer.tar | cut -d' ' -f1)
printf '{"architecture":"amd64","os":"linux","config":{"Env":["PATH=/bin","GREETING=hello"],"WorkingDir":"/app"},' > config.json
printf '"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' $sum >> config.json
printf '[{"Config":"config.json","RepoTags":["test:1"],"Layers":["layer.tar"]}]' > manifest.json
tar -cf image.tar manifest.json config.json layer.tar
)";

class ImageTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v skopeo umoci busybox >/dev/null 2>&1") != 0 || access("/bin/busybox", X_OK) != 0) {
      GTEST_SKIP() << "needs skopeo, umoci and busybox-static";
    }
    std::ofstream(Path("make.sh")) << kMakeArchive;
    ASSERT_EQ(std::system(absl::StrCat("sh ", Path("make.sh"), " ", folder_.path()).c_str()), 0);
  }
  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }

  const TestFolder folder_;
};

TEST_F(ImageTest, AnArchiveIsUnpackedOnceAndRoomsRunOnIt) {
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
  options.rung = "auto";
  options.visible = {Path("store")};
  const auto substrate = LocalSubstrate::Make(options);
  ASSERT_TRUE(substrate.ok()) << substrate.status();
  if (!(*substrate)->grant().layers) GTEST_SKIP() << "this machine grants no rooms with images";
  RoomOptions wish;
  wish.image = image->rootfs;
  wish.binds = {{"logs", "/logs"}, {"tests", "/tests"}};
  const auto room = (*substrate)->Prepare(wish);
  ASSERT_TRUE(room.ok()) << room.status();
  const Command command{
      .argv = {"sh", "-c",
               "cat greeting; id -u; echo changed > greeting; echo new > /bin/new; cat greeting; ls /usr 2>&1; "
               "echo 1 > /logs/reward; echo kept > \"$WORK/f\""},
      .env = {{"PATH", "/bin"}, {"WORK", (*room)->work()}},
      .working_dir = image->working_dir,
      .stdin_text = ""};
  const auto outcome = (*room)->Run(command, Limits{}, nullptr);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_THAT(outcome->out, HasSubstr("from the image\n0\nchanged\n")) << outcome->err;
  EXPECT_THAT(outcome->out, HasSubstr("No such file")) << "the machine's /usr is not there";
  EXPECT_EQ((*room)->ReadBound("logs", "reward", 100).value(), "1\n");
  EXPECT_EQ((*room)->ReadFile("f", 100).value(), "kept\n");
  // Another room, and the store, have the image as it was; a fork has the changes.
  const Command look{.argv = {"sh", "-c", "cat /app/greeting; ls /bin/new 2>&1"},
                     .env = {{"PATH", "/bin"}},
                     .working_dir = "/",
                     .stdin_text = ""};
  EXPECT_THAT((*substrate)->Prepare(wish).value()->Run(look, Limits{}, nullptr)->out, HasSubstr("from the image\n"));
  const auto snapshot = (*room)->TakeSnapshot();
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  RoomOptions fork;
  fork.from = *snapshot;
  const auto leaf = (*substrate)->Prepare(fork);
  ASSERT_TRUE(leaf.ok()) << leaf.status();
  EXPECT_EQ((*leaf)->Run(look, Limits{}, nullptr)->out, "changed\n/bin/new\n");
  // Files of the task's owner arrive when the agent is gone.
  std::filesystem::create_directories(Path("judge"));
  std::ofstream(Path("judge/test.sh")) << "cat /app/greeting > /logs/seen\n";
  ASSERT_TRUE((*room)->FillBound("tests", Path("judge")).ok());
  const Command judge{
      .argv = {"sh", "/tests/test.sh"}, .env = {{"PATH", "/bin"}}, .working_dir = "/", .stdin_text = ""};
  ASSERT_TRUE((*room)->Run(judge, Limits{}, nullptr)->ok());
  EXPECT_EQ((*room)->ReadBound("logs", "seen", 100).value(), "changed\n");
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

}  // namespace
}  // namespace ingot::sandbox
