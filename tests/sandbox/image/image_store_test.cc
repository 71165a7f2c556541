// An ImageStore over tools that this test writes: shell scripts in place of skopeo, umoci and buildah.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <future>
#include <sstream>

#include "base/waits.h"
#include "sandbox/image/image.h"
#include "sandbox/image/image_inventory.h"
#include "sandbox/marked_processes.h"
#include "sandbox/test_sandbox.h"

namespace ingot::sandbox {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// A registry is a folder whose files are images, by the names' last part. `inspect` tells the sum of "list of" and the file's content,
// `copy` makes a layout of the sum of the content: the two digests of one image differ. An archive is such a file too.
// A source whose file says "wait ..." is copied once $REGISTRY/go is there; every call is a line of $REGISTRY/../calls.
constexpr char kSkopeo[] = R"(#!/bin/sh
R=@; echo "skopeo $*" >> $R/calls
sum() { sha256sum | cut -d' ' -f1; }
for last; do :; done
case "$1" in
  inspect)
    [ -e $R/down ] && { echo "dial tcp: no route to host" >&2; exit 1; }
    file=$R/registry/${last##*/}; [ -e $file ] || { echo "manifest unknown" >&2; exit 1; }
    echo "some notice" >&2; { echo list of; cat $file; } | sum | sed s/^/sha256:/ ;;
  --insecure-policy)
    case "$3" in docker:*) file=$R/registry/${3##*/}; file=${file%%@*};; *) file=${3#*:};; esac
    read -r word rest < $file
    [ "$word" = sleep ] && sleep $rest
    [ "$word" = wait ] && while [ ! -e $R/go ]; do sleep 0.02; done
    layout=${4#oci:}; layout=${layout%:image}; mkdir -p $layout; cp $file $layout/content
    printf '{"manifests":[{"digest":"sha256:%s"}]}' $(sum < $file) > $layout/index.json ;;
esac
)";
constexpr char kUmoci[] = R"(#!/bin/sh
echo "umoci $*" >> @/calls
layout=${4%:image}; mkdir -p $5/rootfs; cp $layout/content $5/rootfs/content; echo '{}' > $5/config.json
)";

class ImageStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(Path("bin"));
    fs::create_directories(Path("registry"));
    WriteTool("skopeo", kSkopeo);
    WriteTool("umoci", kUmoci);
    old_path_ = std::getenv("PATH");
    setenv("PATH", absl::StrCat(Path("bin"), ":", old_path_).c_str(), 1);
  }
  void TearDown() override { setenv("PATH", old_path_.c_str(), 1); }

  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }
  void WriteTool(const std::string& name, std::string text) const {
    text.replace(text.find('@'), 1, folder_.path());
    std::ofstream(Path("bin/" + name)) << text;
    fs::permissions(Path("bin/" + name), fs::perms::owner_all);
  }
  void Write(const std::string& name, const std::string& text) const { std::ofstream(Path(name)) << text << "\n"; }
  void Push(const std::string& name, const std::string& content) const { Write("registry/" + name, content); }
  static std::string Read(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  // The content of the image, or why there is none.
  static std::string Content(ImageStore& store, const std::string& source) {
    const auto image = store.Resolve(source);
    return image.ok() ? Read(image->rootfs + "/content") : std::string(image.status().message());
  }
  int Calls(const std::string& of) const {
    int count = 0;
    std::ifstream file(Path("calls"));
    for (std::string line; std::getline(file, line);) count += line.starts_with(of) ? 1 : 0;
    return count;
  }
  int CountScratch() const {
    int count = 0;
    for (const auto& entry : fs::directory_iterator(Path("store"))) {
      if (entry.path().filename().string().starts_with("unpack-")) ++count;
    }
    return count;
  }
  bool Await(const std::function<bool()>& condition) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }
  std::future<std::string> ContentLater(ImageStore& store, const std::string& source) const {
    return std::async(std::launch::async, [&store, source] { return Content(store, source); });
  }

  const TestFolder folder_;
  std::string old_path_;
};

TEST_F(ImageStoreTest, TwoNamesOfARegistryAreTwoImages) {
  Push("one", "first");
  Push("two", "second");
  ImageStore store(Path("store"));
  EXPECT_EQ(Content(store, "docker://host/one"), "first\n");
  EXPECT_EQ(Content(store, "docker://host/two"), "second\n");
  EXPECT_EQ(Content(store, "docker://host/one"), "first\n");
  EXPECT_EQ(Calls("umoci"), 2);
}

TEST_F(ImageStoreTest, AMovedTagIsPulledAgainByTheNextStoreAndByTheSameAfterAnHour) {
  Push("one", "first");
  base::ManualClock clock;
  ImageStore store(Path("store"), {}, clock);
  EXPECT_EQ(Content(store, "docker://host/one"), "first\n");
  Push("one", "second");
  EXPECT_EQ(Content(store, "docker://host/one"), "first\n") << "the registry is not asked for every episode";
  EXPECT_EQ(Calls("skopeo inspect"), 1);
  ImageStore other(Path("store"));
  EXPECT_EQ(Content(other, "docker://host/one"), "second\n");
  clock.Advance(std::chrono::hours(1));
  EXPECT_EQ(Content(store, "docker://host/one"), "second\n");
  EXPECT_EQ(Calls("skopeo inspect"), 3);
  EXPECT_EQ(Calls("skopeo --insecure-policy"), 2) << "what stays is not copied again";
}

TEST_F(ImageStoreTest, ImagesAreListedWithTheirSourcesAndRemovedOnceNobodyUsesThem) {
  Push("one", "first");
  Push("again", "first");
  Push("two", "second");
  std::string first;
  {
    ImageStore store(Path("store"));
    for (const char* name : {"one", "again", "two"}) {
      EXPECT_TRUE(store.Resolve(absl::StrCat("docker://host/", name)).ok()) << name;
    }
    first = store.Resolve("docker://host/one")->digest;
    const absl::Status held = RemoveImages(Path("store"), {first});
    EXPECT_TRUE(absl::IsFailedPrecondition(held)) << held;
    EXPECT_EQ(Content(store, first), "first\n");
  }
  {
    ImageStore reader(Path("store"));
    EXPECT_TRUE(reader.Resolve(first).ok());
    EXPECT_FALSE(RemoveImages(Path("store"), {first}).ok()) << "a digest is a use too";
  }
  const auto images = ListImages(Path("store"));
  ASSERT_EQ(images->size(), 2u);
  const auto shared = std::find_if(images->begin(), images->end(), [&](const auto& i) { return i.digest == first; });
  EXPECT_THAT(shared->sources, testing::ElementsAre("docker://host/again", "docker://host/one"));
  EXPECT_GT(shared->bytes, 0);
  EXPECT_LT(std::abs(std::difftime(shared->last_use, std::time(nullptr))), 3600);

  const absl::Status unknown = RemoveImages(Path("store"), {first, "sha256:" + std::string(64, '0')});
  EXPECT_TRUE(absl::IsNotFound(unknown)) << unknown;
  EXPECT_EQ(ListImages(Path("store"))->size(), 2u) << "one was removed for an error";
  EXPECT_TRUE(RemoveImages(Path("store"), {first}).ok());
  const auto left = ListImages(Path("store"));
  ASSERT_EQ(left->size(), 1u);
  EXPECT_THAT(left->front().sources, testing::ElementsAre("docker://host/two"));
  EXPECT_EQ(CountScratch(), 0);

  ImageStore store(Path("store"));
  EXPECT_EQ(Content(store, "docker://host/two"), "second\n");
  EXPECT_EQ(Calls("umoci"), 2);
  EXPECT_EQ(Content(store, "docker://host/one"), "first\n") << "a removed image is unpacked again";
  EXPECT_EQ(Calls("umoci"), 3);
}

TEST_F(ImageStoreTest, TheListBeginsWithTheImageThatWasNotUsedForLongest) {
  Push("one", "first");
  Push("two", "second");
  ImageStore store(Path("store"));
  EXPECT_EQ(Content(store, "docker://host/two"), "second\n");
  EXPECT_EQ(Content(store, "docker://host/one"), "first\n");
  const auto before = ListImages(Path("store"));
  for (const auto& image : *before) {
    fs::last_write_time(ImageFolder(Path("store"), image.digest) + "/image.json",
                        fs::file_time_type::clock::now() - std::chrono::hours(50));
  }
  EXPECT_EQ(Content(store, "docker://host/two"), "second\n");
  const auto images = ListImages(Path("store"));
  ASSERT_EQ(images->size(), 2u);
  EXPECT_THAT(images->front().sources, testing::ElementsAre("docker://host/one"));
  EXPECT_LT(images->front().last_use, std::time(nullptr) - 49 * 3600);
  EXPECT_TRUE(ListImages(Path("nowhere"))->empty());
}

TEST_F(ImageStoreTest, WithoutARegistryTheCopyPulledLastIsUsed) {
  Push("one", "first");
  ImageStore store(Path("store"));
  EXPECT_EQ(Content(store, "docker://host/one"), "first\n");
  Push("one", "second");
  Write("down", "");
  ImageStore other(Path("store"));
  EXPECT_EQ(Content(other, "docker://host/one"), "first\n");
  EXPECT_EQ(Content(other, "docker://host/one"), "first\n");
  EXPECT_EQ(Calls("skopeo inspect"), 2) << "a silent registry is not asked for every episode either";
  EXPECT_THAT(Content(other, "docker://host/two"),
              testing::AllOf(HasSubstr("docker://host/two"), HasSubstr("no route to host"), HasSubstr("no copy"),
                             HasSubstr("oci-archive:FILE")));
}

TEST_F(ImageStoreTest, ANamePinnedByDigestIsPulledOnceAndNeverAskedFor) {
  Push("one", "first");
  const std::string pinned = "docker://host/one@sha256:" + std::string(64, 'a');
  for (int i = 0; i < 2; ++i) {
    ImageStore store(Path("store"));
    EXPECT_EQ(Content(store, pinned), "first\n");
  }
  EXPECT_EQ(Calls("skopeo inspect"), 0);
  EXPECT_EQ(Calls("skopeo"), 1);
}

TEST_F(ImageStoreTest, TwoSourcesUnpackAtOnceAndAnUnpackedThirdWaitsForNeither) {
  Write("slow1", "wait 1");
  Write("slow2", "wait 2");
  Write("quick", "third");
  ImageStore store(Path("store"));
  EXPECT_EQ(Content(store, "oci-archive:" + Path("quick")), "third\n");
  auto first = ContentLater(store, "oci-archive:" + Path("slow1"));
  auto again = ContentLater(store, "oci-archive:" + Path("slow1"));
  auto second = ContentLater(store, "oci-archive:" + Path("slow2"));
  EXPECT_TRUE(Await([&] { return Calls("skopeo") == 3; })) << "both copies run";
  EXPECT_EQ(Content(store, "oci-archive:" + Path("quick")), "third\n");
  Write("go", "");
  EXPECT_EQ(first.get(), "wait 1\n");
  EXPECT_EQ(again.get(), "wait 1\n");
  EXPECT_EQ(second.get(), "wait 2\n");
  EXPECT_EQ(Calls("skopeo"), 3) << "the callers of one source waited for one unpacking";
}

TEST_F(ImageStoreTest, CallersThatWaitedForAFailedUnpackingGetItsErrorAndLaterOnesTryAgain) {
  WriteTool("umoci", "#!/bin/sh\n: @\necho 'a broken layer' >&2; exit 1\n");
  Write("slow", "wait 1");
  const std::string source = "oci-archive:" + Path("slow");
  ImageStore store(Path("store"));
  auto first = ContentLater(store, source);
  EXPECT_TRUE(Await([&] { return Calls("skopeo") == 1; }));
  auto again = ContentLater(store, source);
  EXPECT_TRUE(Await([&] {
    const auto waits = base::Waits::OfProcess().Longer(std::chrono::nanoseconds(0), base::WaitKind::kWork);
    return std::find(waits.begin(), waits.end(), "the image " + source) != waits.end();
  }));
  Write("go", "");
  EXPECT_THAT(first.get(), HasSubstr("a broken layer"));
  EXPECT_THAT(again.get(), HasSubstr("a broken layer"));
  EXPECT_EQ(Calls("skopeo"), 1) << "it was not tried again for each of them";
  WriteTool("umoci", kUmoci);
  EXPECT_EQ(Content(store, source), "wait 1\n");
}

TEST_F(ImageStoreTest, AStopEndsItsToolsAndItsWaitersAndLeavesNothing) {
  const MarkedProcesses marked;
  Write("slow", "sleep " + marked.sleep());
  Write("quick", "third");
  ImageStore store(Path("store"));
  EXPECT_EQ(Content(store, "oci-archive:" + Path("quick")), "third\n");
  auto first = ContentLater(store, "oci-archive:" + Path("slow"));
  ASSERT_TRUE(marked.Await(1));
  auto again = ContentLater(store, "oci-archive:" + Path("slow"));
  store.Stop();
  EXPECT_THAT(first.get(), HasSubstr("stopped, and skopeo with it"));
  EXPECT_THAT(again.get(), HasSubstr("stopped"));
  EXPECT_TRUE(marked.AwaitNone());
  EXPECT_EQ(CountScratch(), 0);
  EXPECT_EQ(Content(store, "oci-archive:" + Path("quick")), "third\n");
}

TEST_F(ImageStoreTest, AToolDiesWithItsProcessAndTheNextStoreSweepsItsFolder) {
  const MarkedProcesses marked;
  WriteTool("skopeo", "#!/bin/sh\necho @ >/dev/null\nexec sleep " + marked.sleep() + "\n");
  Write("slow", "never");
  const pid_t child = fork();
  if (child == 0) {
    ImageStore(Path("store")).Resolve("oci-archive:" + Path("slow")).IgnoreError();
    _exit(0);
  }
  ASSERT_TRUE(marked.Await(1));
  WriteTool("skopeo", kSkopeo);
  Write("quick", "third");
  ImageStore beside(Path("store"));
  EXPECT_EQ(Content(beside, "oci-archive:" + Path("quick")), "third\n");
  EXPECT_EQ(CountScratch(), 1) << "of a living process";
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(marked.AwaitNone());
  EXPECT_EQ(CountScratch(), 1) << "nobody was left to remove it";
  Write("other", "fourth");
  ImageStore after(Path("store"));
  EXPECT_EQ(Content(after, "oci-archive:" + Path("other")), "fourth\n");
  EXPECT_EQ(CountScratch(), 0);
}

}  // namespace
}  // namespace ingot::sandbox
