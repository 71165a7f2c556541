// Images that buildah makes, as archives and from Dockerfiles, and sandboxes on them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>

#include "sandbox/build_attacks.h"
#include "sandbox/image/image.h"
#include "sandbox/marked_processes.h"
#include "sandbox/test_sandbox.h"

namespace ingot::sandbox {
namespace {

// A Dockerfile with commands of its own, and both kinds of archive of what it built.
constexpr char kMakeByBuildah[] = R"(set -e
cd "$1"; mkdir -p context
cp /bin/busybox context/busybox
cat >context/Dockerfile <<'END'
FROM scratch
COPY busybox /bin/busybox
RUN ["/bin/busybox", "sh", "-c", "for each in sh cat mkdir tr; do /bin/busybox ln -s busybox /bin/$each; done"]
ENV PATH=/bin GREETING=hello
WORKDIR /app
RUN echo "from a layer" > greeting && mkdir -p /tmp /etc
RUN cat greeting | tr a-z A-Z > loud
END
alias build='buildah --storage-driver vfs --root "$1/storage" --runroot "$1/run"'
build bud --isolation chroot --layers --tag made context
build push made oci-archive:"$1/oci.tar"
build push made docker-archive:"$1/docker.tar":made:1
rm -rf "$1/storage" "$1/run"
)";

class BuildahTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v buildah skopeo umoci busybox >/dev/null 2>&1") != 0 ||
        access("/bin/busybox", X_OK) != 0) {
      GTEST_SKIP() << "needs buildah, skopeo, umoci and busybox-static";
    }
    if (geteuid() != 0) GTEST_SKIP() << "only root can build without an engine";
  }
  void MakeByBuildah() const {
    std::ofstream(Path("make.sh")) << kMakeByBuildah;
    const std::string make = absl::StrCat("sh ", Path("make.sh"), " ", folder_.path(), " >", Path("log"), " 2>&1");
    ASSERT_EQ(std::system(make.c_str()), 0) << std::ifstream(Path("log")).rdbuf();
  }
  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }
  // A folder whose Dockerfile begins with a static shell, and goes on with `steps`.
  std::string Context(const std::string& steps) const {
    std::filesystem::create_directories(Path("hostile"));
    std::filesystem::copy_file("/bin/busybox", Path("hostile/busybox"), std::filesystem::copy_options::skip_existing);
    std::ofstream(Path("hostile/Dockerfile")) << R"(FROM scratch
COPY busybox /bin/busybox
RUN ["/bin/busybox", "--install", "-s", "/bin"]
ENV PATH=/bin
)" << steps;
    return "dockerfile:" + Path("hostile");
  }
  static std::string Read(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  const TestFolder folder_;
};

TEST_F(BuildahTest, SandboxesRunOnItsArchivesAndOnItsDockerfiles) {
  MakeByBuildah();
  ImageStore store(Path("store"));
  SubstrateOptions options;
  options.work_root = Path("work");
  options.images = Path("store");
  const auto substrate = LocalSubstrate::Make(options);
  ASSERT_TRUE(substrate.ok()) << substrate.status();
  if (!(*substrate)->probe_result().layers) GTEST_SKIP() << "this machine grants no sandboxes with images";
  for (const std::string& source :
       {"oci-archive:" + Path("oci.tar"), "docker-archive:" + Path("docker.tar"), "dockerfile:" + Path("context")}) {
    SCOPED_TRACE(source);
    const auto image = store.Resolve(source);
    ASSERT_TRUE(image.ok()) << image.status();
    EXPECT_EQ(image->env.at("GREETING"), "hello");
    EXPECT_EQ(image->working_dir, "/app");
    // Known by its source, and by its digest to another store object; neither unpacks it again.
    const auto time = std::filesystem::last_write_time(image->rootfs + "/..");
    EXPECT_EQ(store.Resolve(source)->rootfs, image->rootfs);
    EXPECT_EQ(ImageStore(Path("store")).Resolve(image->digest)->rootfs, image->rootfs);
    EXPECT_EQ(std::filesystem::last_write_time(image->rootfs + "/.."), time);

    SandboxOptions wish;
    wish.image = image->rootfs;
    const auto sandbox = (*substrate)->Prepare(wish);
    ASSERT_TRUE(sandbox.ok()) << sandbox.status();
    const Command command{.argv = {"sh", "-c", "cat greeting loud; echo $GREETING"},
                          .env = {image->env.begin(), image->env.end()},
                          .working_dir = image->working_dir,
                          .stdin_text = ""};
    const auto outcome = (*sandbox)->Run(command, Limits{}, nullptr);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(outcome->out, "from a layer\nFROM A LAYER\nhello\n") << outcome->err;
  }
  // The same bytes in another file are the same image.
  std::filesystem::copy_file(Path("oci.tar"), Path("copy.tar"));
  EXPECT_EQ(store.Resolve("oci-archive:" + Path("copy.tar"))->digest,
            store.Resolve("oci-archive:" + Path("oci.tar"))->digest);
}

TEST_F(BuildahTest, StepsOfADockerfileReachNothingOfTheMachineAndTheImageIsBuilt) {
  const AttackTargets targets(folder_.path());
  const LoopbackServer allowed("the package");
  std::string arguments;
  for (const std::string& argument : targets.Arguments()) absl::StrAppend(&arguments, " ", argument);
  const std::string service = targets.server().host();
  const std::string source = Context(absl::StrCat(
      "COPY attack /bin/attack\nWORKDIR /app\nRUN attack", arguments, " > attacks; chmod 644 attacks\n",
      "RUN wget -q -O direct -Y off http://", service, "/; wget -q -O listed http://", service, "/ 2> listed.error; ",
      "wget -q -O allowed http://", allowed.host(), "/p\n", "RUN env | grep -i proxy | sort > proxies; id -u > uid\n"));
  std::filesystem::copy_file(INGOT_BUILD_ATTACK, Path("hostile/attack"));
  // Whatever the modes of the context are: it is the owner's.
  std::filesystem::permissions(Path("hostile"), std::filesystem::perms::owner_all);
  ImageStore store(Path("store"), {.build_hosts = {allowed.host()}});
  const auto image = store.Resolve(source);
  ASSERT_TRUE(image.ok()) << image.status();
  ExpectRejected(OutcomesOf(image->rootfs + "/app/attacks"));
  targets.ExpectAsTheyWere();
  EXPECT_EQ(Read(image->rootfs + "/app/allowed"), "the package");
  EXPECT_EQ(allowed.connections(), 1);
  EXPECT_EQ(Read(image->rootfs + "/app/direct"), "");
  EXPECT_THAT(Read(image->rootfs + "/app/listed.error"), testing::HasSubstr("403"));
  EXPECT_EQ(Read(image->rootfs + "/app/uid"), "0\n");
  EXPECT_EQ(image->env.count("http_proxy"), 0u) << "the proxy is the build's, not the image's";
}

TEST_F(BuildahTest, AStopEndsABuildWithItsStepsAndLeavesNothing) {
  const MarkedProcesses marked;
  ImageStore store(Path("store"));
  const std::string source = Context(absl::StrCat("RUN sleep ", marked.sleep(), "\n"));
  auto image = std::async(std::launch::async, [&] { return store.Resolve(source); });
  EXPECT_TRUE(marked.Await(1));
  store.Stop();
  EXPECT_TRUE(absl::IsCancelled(image.get().status()));
  EXPECT_EQ(marked.Count(), 0) << "it waits for the end of all";
  for (const auto& entry : std::filesystem::directory_iterator(Path("store")))
    EXPECT_FALSE(entry.path().filename().string().starts_with("unpack-")) << "the scratch folder goes";
}

TEST_F(BuildahTest, ABuildThatNeedsAHostOffTheListNamesItAndTheKey) {
  ImageStore store(Path("store"), {.build_hosts = {"pypi.org:443"}});
  const auto step = store.Resolve(Context("RUN wget -q -O x http://packages.example/x\n"));
  EXPECT_TRUE(absl::IsInvalidArgument(step.status())) << step.status();
  EXPECT_THAT(std::string(step.status().message()),
              testing::AllOf(testing::HasSubstr("packages.example:80"), testing::HasSubstr("agents.image_build_hosts"),
                             testing::HasSubstr("--build-host")));
  std::filesystem::create_directories(Path("based"));
  std::ofstream(Path("based/Dockerfile")) << "FROM registry.example:5000/base:1\nRUN true\n";
  const auto base = store.Resolve("dockerfile:" + Path("based"));
  EXPECT_THAT(std::string(base.status().message()), testing::AllOf(testing::HasSubstr("registry.example:5000"),
                                                                   testing::HasSubstr("agents.image_build_hosts")));
  for (const auto& entry : std::filesystem::directory_iterator(Path("store")))
    EXPECT_FALSE(entry.path().filename().string().starts_with("unpack-")) << "the scratch folder goes";
}

}  // namespace
}  // namespace ingot::sandbox
