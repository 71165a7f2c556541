// Sandboxes of the isolation levels `landlock`, `namespaces` and `full`, where this machine grants them: as root, and as a user who is not.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <thread>

#include "sandbox/egress/relay.h"
#include "sandbox/launch_messages.h"
#include "sandbox/test_sandbox.h"

namespace ingot::sandbox::strong_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

Command Shell(const std::string& script, const Sandbox* sandbox = nullptr) {
  return {.argv = {"/bin/sh", "-c", script},
          .env = {{"PATH", "/usr/bin:/bin"}},
          .working_dir = sandbox == nullptr ? "" : sandbox->work(),
          .stdin_text = ""};
}

class StrongTest : public testing::Test {
 protected:
  std::unique_ptr<LocalSubstrate> Make(const std::string& isolation = "auto") {
    options_.work_root = folder_.path() + "/work-" + std::to_string(geteuid());
    options_.isolation = isolation;
    auto substrate = LocalSubstrate::Make(options_);
    EXPECT_TRUE(substrate.ok()) << substrate.status();
    if (substrate.ok()) std::printf("%s\n", (*substrate)->probe_result().Describe().c_str());
    return substrate.ok() ? *std::move(substrate) : nullptr;
  }
  // Null: this machine grants less.
  std::unique_ptr<LocalSubstrate> MakeNamespaces() {
    auto substrate = Make();
    return substrate != nullptr && substrate->probe_result().isolation >= IsolationLevel::kNamespaces
               ? std::move(substrate)
               : nullptr;
  }

  const TestFolder folder_;
  SubstrateOptions options_;
};

TEST_F(StrongTest, ASandboxSeesProgramsAndItsOwnFoldersAlone) {
  const auto substrate = MakeNamespaces();
  if (substrate == nullptr) GTEST_SKIP() << "not granted";
  std::ofstream(folder_.path() + "/outside") << "secret";
  auto sandbox = substrate->Prepare();
  ASSERT_TRUE(sandbox.ok()) << sandbox.status();
  ASSERT_TRUE((*sandbox)->WriteFile("in/note", "hello").ok());
  const auto outcome = (*sandbox)->Run(
      Shell("cat in/note; echo; cat " + folder_.path() +
                "/outside 2>&1; ls /; ls -d /proc/[0-9]* | wc -l; touch /x 2>&1; "
                "echo t > /tmp/t && cat /tmp/t; echo made > out; hostname; ls /sys/class/net 2>/dev/null",
            sandbox->get()),
      Limits{}, nullptr);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_THAT(outcome->out, HasSubstr("hello\n"));
  EXPECT_THAT(outcome->out, testing::Not(HasSubstr("secret")));
  EXPECT_THAT(outcome->out, testing::Not(HasSubstr("\nwork\n")));
  EXPECT_THAT(outcome->out, HasSubstr("\nt\n"));
  EXPECT_THAT(outcome->out, HasSubstr("Read-only file system"));
  EXPECT_THAT(outcome->out, HasSubstr("sandbox\n"));
  EXPECT_EQ((*sandbox)->ReadFile("out", 100).value(), "made\n");
  // A second command finds the files, and no process, of the first.
  const auto second = (*sandbox)->Run(Shell("cat out", sandbox->get()), Limits{}, nullptr);
  EXPECT_EQ(second->out, "made\n");
}

// A listener of 127.0.0.1 that answers each connection with `text`.
class Greeter {
 public:
  explicit Greeter(std::string text) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), text_(std::move(text)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd_.get(), 16), 0);
    getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] {
      while (true) {
        const Fd client(accept(fd_.get(), nullptr, nullptr));
        if (!client.valid()) return;
        char byte;
        [[maybe_unused]] const ssize_t got = read(client.get(), &byte, 1);
        [[maybe_unused]] const ssize_t sent = write(client.get(), text_.data(), text_.size());
      }
    });
  }
  ~Greeter() {
    shutdown(fd_.get(), SHUT_RDWR);
    thread_.join();
  }
  int port() const { return port_; }

 private:
  const Fd fd_;
  const std::string text_;
  int port_ = 0;
  std::thread thread_;
};

std::string Dial(int port) {
  return absl::StrCat("python3 -c 'import socket\ns=socket.create_connection((\"127.0.0.1\",", port,
                      "),5)\ns.sendall(b\"x\")\nprint(s.recv(100).decode())' 2>&1 | tail -1");
}

// Harbor's tasks have their files at /app.
TEST_F(StrongTest, TheWorkFolderMayBeSeenAtASecondPath) {
  const auto substrate = MakeNamespaces();
  if (substrate == nullptr) GTEST_SKIP() << "not granted";
  for (const bool snapshots : {false, true}) {
    SandboxOptions wish;
    wish.binds = {{"work", "/app"}};
    wish.takes_snapshots = snapshots;
    auto sandbox = substrate->Prepare(wish);
    ASSERT_TRUE(sandbox.ok()) << sandbox.status();
    ASSERT_TRUE((*sandbox)->WriteFile("given", "outside").ok());
    const auto outcome =
        (*sandbox)->Run(Shell("cat /app/given; echo inside > /app/made; cat made", sandbox->get()), {}, nullptr);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(outcome->out, "outsideinside\n") << outcome->err << " snapshots " << snapshots;
    EXPECT_EQ(*(*sandbox)->ReadFile("made", 100), "inside\n");
  }
}

TEST_F(StrongTest, ASandboxReachesTheGatewayAndNoOtherPort) {
  const auto substrate = MakeNamespaces();
  if (substrate == nullptr) GTEST_SKIP() << "not granted";
  const Greeter gateway("gateway here"), other("another service");
  auto sandbox = substrate->Prepare().value();
  const std::string url = absl::StrCat("http://127.0.0.1:", gateway.port(), "/s/1/v1");
  EXPECT_EQ(sandbox->InsideUrl(url), absl::StrCat("http://127.0.0.1:", kInsidePort, "/s/1/v1"));
  const auto relay = Relay::Start().value();
  auto served = relay->Serve(sandbox->TakeListener(), url);
  ASSERT_TRUE(served.ok()) << served.status();
  EXPECT_EQ(sandbox->Run(Shell(Dial(kInsidePort)), Limits{}, nullptr)->out, "gateway here\n");
  EXPECT_EQ(sandbox->Run(Shell(Dial(kInsidePort)), Limits{}, nullptr)->out, "gateway here\n");
  EXPECT_THAT(sandbox->Run(Shell(Dial(other.port())), Limits{}, nullptr)->out, HasSubstr("refused"));
  EXPECT_FALSE(sandbox->TakeListener().valid()) << "it is taken once";
}

// Connects to a port of the sandbox's loopback interface. Empty: nobody listens; else the first bytes that came.
std::string AskInside(Sandbox& sandbox, int port) {
  const Fd fd = sandbox.NewSocket().value();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return "";
  char bytes[64];
  const ssize_t got = recv(fd.get(), bytes, sizeof(bytes), 0);
  return std::string(bytes, static_cast<size_t>(std::max<ssize_t>(got, 0)));
}

TEST_F(StrongTest, ACompanionListensInsideTheSandboxUntilTheNextCommandEnds) {
  const auto substrate = MakeNamespaces();
  if (substrate == nullptr) GTEST_SKIP() << "not granted";
  auto sandbox = substrate->Prepare().value();
  Command serve = Shell("");
  serve.argv = {"/usr/bin/python3", "-I", "-c",
                "import socket, sys\ns = socket.create_server(('127.0.0.1', 8123)); print('listens', flush=True)\n"
                "while True: s.accept()[0].sendall(b'hello')"};
  auto companion = sandbox->StartCompanion(serve, Limits{});
  ASSERT_TRUE(companion.ok()) << companion.status();
  std::string answer;
  pollfd gone{companion->input.get(), 0, 0};
  while (answer.empty() && poll(&gone, 1, 10) == 0) answer = AskInside(*sandbox, 8123);
  EXPECT_EQ(answer, "hello");
  char said[32] = {};
  EXPECT_EQ(pread(companion->output.get(), said, sizeof(said), 0), 8);
  EXPECT_STREQ(said, "listens\n");
  const auto outcome = sandbox->Run(Shell(Dial(8123)), Limits{}, nullptr);
  EXPECT_EQ(outcome->out, "hello\n") << outcome->err;
  EXPECT_EQ(poll(&gone, 1, 0), 1) << "it ended with the command";
  EXPECT_EQ(AskInside(*sandbox, 8123), "");
}

TEST_F(StrongTest, ACompanionThatDoesNotStartOrEndsIsSeen) {
  const auto substrate = MakeNamespaces();
  if (substrate == nullptr) GTEST_SKIP() << "not granted";
  auto sandbox = substrate->Prepare().value();
  Command missing = Shell("");
  missing.argv = {"/no/such/program"};
  EXPECT_EQ(sandbox->StartCompanion(missing, Limits{}).status().code(), absl::StatusCode::kNotFound);
  const auto brief = sandbox->StartCompanion(Shell("echo why >&2; exit 3"), Limits{});
  ASSERT_TRUE(brief.ok()) << brief.status();
  pollfd gone{brief->input.get(), 0, 0};
  EXPECT_EQ(poll(&gone, 1, 60'000), 1);
  EXPECT_EQ(sandbox->Run(Shell("echo next"), Limits{}, nullptr)->out, "next\n");
}

TEST_F(StrongTest, TotalsOfMemoryAreHeldOverAllProcesses) {
  options_.totals.memory_bytes = 96 << 20;
  const auto substrate = Make("full");
  if (substrate->probe_result().isolation != IsolationLevel::kFull) GTEST_SKIP() << "not granted";
  auto sandbox = substrate->Prepare().value();
  const auto outcome = sandbox->Run(Shell("for i in 1 2 3 4 5 6; do python3 -c 'x=bytearray(40<<20)\nimport time; "
                                          "time.sleep(2); print(1)' & done; wait"),
                                    Limits{}, nullptr);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_LT(outcome->out.size(), 12u) << "some were killed: " << outcome->out;
}

TEST_F(StrongTest, ACommandThatTheKernelKilledForItsMemorySaysSo) {
  options_.totals.memory_bytes = 64 << 20;
  const auto substrate = Make("full");
  if (substrate->probe_result().isolation != IsolationLevel::kFull) GTEST_SKIP() << "not granted";
  auto sandbox = substrate->Prepare().value();
  const auto outcome = sandbox->Run(Shell("exec python3 -c 'x = bytearray(200 << 20)'"), Limits{}, nullptr);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->ending, Ending::kMemoryFull);
  EXPECT_THAT(Describe(*outcome, Limits{}), HasSubstr("sandbox.memory_bytes"));
  const auto other = sandbox->Run(Shell("kill -9 $$"), Limits{}, nullptr);
  EXPECT_EQ(other->ending, Ending::kSignalled) << "of another cause";
}

TEST_F(StrongTest, WithoutControlGroupsTheMemoryOfAllProcessesIsSummed) {
  options_.totals.memory_bytes = 96 << 20;
  for (const char* isolation : {"process", "namespaces"}) {
    const auto substrate = Make(isolation);
    auto sandbox = substrate->Prepare().value();
    Limits limits;
    limits.wall_time = seconds(100);
    // The second ones are orphans, in sessions of their own.
    const auto outcome = sandbox->Run(
        Shell("for i in 1 2; do hold='x = bytearray(40 << 20); import time; time.sleep(90)'; python3 -c \"$hold\" & "
              "(setsid python3 -c \"$hold\" &); done; wait"),
        limits, nullptr);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(outcome->ending, Ending::kMemoryFull) << isolation << outcome->err;
    EXPECT_THAT(Describe(*outcome, limits), HasSubstr("sandbox.memory_bytes"));
    EXPECT_EQ(sandbox->Run(Shell("echo next"), limits, nullptr)->out, "next\n");
  }
}

TEST_F(StrongTest, MemoryThatProcessesShareIsSummedOnce) {
  options_.totals.memory_bytes = 200 << 20;
  options_.agent_uid = "shared";  // whose shares every user may read
  const auto substrate = Make("process");
  auto sandbox = substrate->Prepare().value();
  const auto outcome = sandbox->Run(Shell("exec python3 -c 'x = bytearray(100 << 20)\nimport os, time\n"
                                          "for i in range(3):\n  if os.fork() == 0: break\ntime.sleep(1.2)\nprint(1)'"),
                                    Limits{}, nullptr);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->ending, Ending::kExited) << Describe(*outcome, Limits{}) << outcome->err;
}

TEST_F(StrongTest, DiskBeyondTheLimitEndsTheCommand) {
  options_.disk.bytes = 20 << 20;
  for (const char* isolation : {"process", "auto"}) {
    const auto substrate = Make(isolation);
    auto sandbox = substrate->Prepare().value();
    Limits limits;
    limits.wall_time = seconds(60);
    const auto outcome = sandbox->Run(
        Shell("i=0; while :; do head -c 4000000 /dev/zero > f$i; i=$((i+1)); sleep 0.05; done", sandbox.get()), limits,
        nullptr);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(outcome->ending, Ending::kDiskFull);
    EXPECT_THAT(Describe(*outcome, limits), HasSubstr("sandbox.disk_bytes"));
  }
}

TEST_F(StrongTest, ACommandThatEndsBeforeItsDiskIsCountedIsCountedAtItsEnd) {
  options_.disk.files = 100;
  const auto substrate = Make("process");
  const std::string make = "i=0; while [ $i -lt 150 ]; do : > f$i; i=$((i+1)); done";
  auto sandbox = substrate->Prepare().value();
  EXPECT_EQ(sandbox->Run(Shell(make, sandbox.get()), Limits{}, nullptr)->ending, Ending::kDiskFull);
  EXPECT_EQ(substrate->Prepare().value()->Run(Shell("true"), Limits{}, nullptr)->ending, Ending::kExited);
}

// Whoever filled the disk: the command did not fail by itself.
TEST_F(StrongTest, AFullDiskBelowTheSandboxesEndsTheCommandAsNobodysFault) {
  const std::string disk = folder_.path() + "/disk";
  std::filesystem::create_directories(disk);
  // In a mount namespace of this process, so that nothing stays mounted.
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("ingot-test", disk.c_str(), "tmpfs", 0, "size=16m,mode=0777") != 0) {
    GTEST_SKIP() << "a small disk needs root: " << std::strerror(errno);
  }
  options_.work_root = disk + "/work";
  options_.disk.bytes = 1 << 30;
  for (const char* isolation : {"process", "auto"}) {
    options_.isolation = isolation;
    const auto substrate = LocalSubstrate::Make(options_).value();
    auto sandbox = substrate->Prepare().value();
    // It hides its failure, as agents do.
    const auto outcome = sandbox->Run(Shell("cat /dev/zero > fill 2>&1; exit 0", sandbox.get()), Limits{}, nullptr);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(outcome->ending, Ending::kNoSpace) << isolation;
    EXPECT_THAT(Describe(*outcome, Limits{}), HasSubstr("agents.work_root's disk was full"));
    sandbox.reset();
    EXPECT_EQ(substrate->Prepare().value()->Run(Shell("true"), Limits{}, nullptr)->ending, Ending::kExited);
  }
  umount2(disk.c_str(), MNT_DETACH);
}

TEST_F(StrongTest, ALimitOfTheSandboxesOwnReplacesTheUsualOne) {
  options_.disk.files = 1000;
  const auto substrate = Make("process");
  SandboxOptions wish;
  wish.disk.files = 50;
  auto sandbox = substrate->Prepare(wish).value();
  const std::string make = "i=0; while [ $i -lt 100 ]; do : > f$i; i=$((i+1)); done";
  EXPECT_EQ(sandbox->Run(Shell(make, sandbox.get()), Limits{}, nullptr)->ending, Ending::kDiskFull);
  auto usual = substrate->Prepare().value();
  EXPECT_EQ(usual->Run(Shell(make, usual.get()), Limits{}, nullptr)->ending, Ending::kExited);
}

TEST_F(StrongTest, ASandboxOfThePoolIsReadyAndUnused) {
  options_.pool = 2;
  const auto substrate = Make();
  SandboxOptions plain, kept, bound;
  kept.takes_snapshots = true;
  bound.binds = {{"work", "/app"}};
  for (int i = 0; i < 12; ++i) {
    const SandboxOptions& wish = i % 3 == 0 ? plain : i % 3 == 1 ? kept : bound;
    if (&wish == &bound && !substrate->probe_result().root_folder) continue;
    auto sandbox = substrate->Prepare(wish);
    ASSERT_TRUE(sandbox.ok()) << sandbox.status();
    const std::string place = &wish == &bound ? "cd /app; " : "";
    EXPECT_EQ((*sandbox)->Run(Shell(place + "ls; echo used > mark; ls", sandbox->get()), Limits{}, nullptr)->out,
              "mark\n");
    if (&wish == &kept) {
      EXPECT_TRUE((*sandbox)->TakeSnapshot().ok());
    }
  }
}

TEST_F(StrongTest, ASnapshotKeepsFilesAndAForkGoesItsOwnWay) {
  for (const char* isolation : {"auto", "process"}) {
    const auto substrate = Make(isolation);
    SandboxOptions options;
    options.takes_snapshots = true;
    auto trunk = substrate->Prepare(options);
    ASSERT_TRUE(trunk.ok()) << trunk.status();
    Sandbox& sandbox = **trunk;
    ASSERT_TRUE(
        sandbox
            .Run(Shell("echo one > a; echo two > b; mkdir d; echo x > d/x; echo h > ~/h", &sandbox), Limits{}, nullptr)
            .ok());
    auto snapshot = sandbox.TakeSnapshot();
    ASSERT_TRUE(snapshot.ok()) << snapshot.status();
    ASSERT_TRUE(sandbox.Run(Shell("echo changed > a; rm b", &sandbox), Limits{}, nullptr)->ok());
    SandboxOptions fork;
    fork.from = *snapshot;
    for (int i = 0; i < 2; ++i) {
      auto leaf = substrate->Prepare(fork);
      ASSERT_TRUE(leaf.ok()) << leaf.status();
      const auto outcome =
          (*leaf)->Run(Shell("cat a b d/x; echo leaf > a; rm -r d; cat a; ls", leaf->get()), Limits{}, nullptr);
      EXPECT_EQ(outcome->out, "one\ntwo\nx\nleaf\na\nb\n") << outcome->err << i << isolation;
      EXPECT_EQ((*leaf)->ReadFile("a", 100).value(), "leaf\n");
      ASSERT_TRUE((*leaf)->WriteFile("new", "from outside").ok());
      EXPECT_EQ((*leaf)->Run(Shell("cat new", leaf->get()), Limits{}, nullptr)->out, "from outside");
      // A fork of a fork.
      auto deeper = (*leaf)->TakeSnapshot();
      ASSERT_TRUE(deeper.ok()) << deeper.status();
      fork.from = *deeper;
      auto twig = substrate->Prepare(fork);
      ASSERT_TRUE(twig.ok()) << twig.status();
      EXPECT_EQ((*twig)->Run(Shell("cat a; ls", twig->get()), Limits{}, nullptr)->out, "leaf\na\nb\nnew\n");
      fork.from = *snapshot;
    }
    EXPECT_EQ(sandbox.Run(Shell("cat a; ls", &sandbox), Limits{}, nullptr)->out, "changed\na\nd\n");
  }
}

// Below /tmp, where other tests have it, the sandbox's own /tmp takes the place of the cover of other sandboxes.
TEST_F(StrongTest, ASnapshotKeepsFilesWhereverTheWorkRootLies) {
  if (geteuid() != 0) GTEST_SKIP() << "needs a folder outside of /tmp";
  char folder[] = "/var/ingot-test-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  std::filesystem::permissions(folder, std::filesystem::perms::all);
  options_.work_root = std::string(folder) + "/work";
  {
    const auto substrate = LocalSubstrate::Make(options_).value();
    SandboxOptions options;
    options.takes_snapshots = true;
    auto sandbox = substrate->Prepare(options).value();
    ASSERT_TRUE(sandbox->WriteFile("given", "outside").ok());
    EXPECT_EQ(
        sandbox->Run(Shell("cat given; echo kept > made; ls ..", sandbox.get()), Limits{}, nullptr)->out.substr(0, 7),
        "outside");
    EXPECT_EQ(sandbox->ReadFile("made", 100).value(), "kept\n");
    SandboxOptions fork;
    fork.from = sandbox->TakeSnapshot().value();
    auto leaf = substrate->Prepare(fork).value();
    EXPECT_EQ(leaf->Run(Shell("cat given made", leaf.get()), Limits{}, nullptr)->out, "outsidekept\n");
  }
  std::filesystem::remove_all(folder);
}

// Each snapshot is a layer; past 32 they are merged, with what later layers deleted and replaced.
TEST_F(StrongTest, AChainOfSnapshotsOfAnyLengthKeepsItsFiles) {
  const auto chain = [](Substrate& substrate) {
    SandboxOptions options;
    options.takes_snapshots = true;
    auto sandbox = substrate.Prepare(options);
    ASSERT_TRUE(sandbox.ok()) << sandbox.status();
    std::shared_ptr<const Snapshot> last;
    for (int i = 0; i < 34; ++i) {
      // A file of every round, whose predecessor goes; a folder that becomes a file and a folder again; one that is
      // emptied and filled.
      const std::string round = absl::StrCat("echo ", i, " > f", i, "; rm -f f", i - 1, "; rm -rf turn; ",
                                             i % 2 == 0 ? "mkdir turn; echo in > turn/x" : "echo file > turn",
                                             "; rm -rf full; mkdir full; echo ", i, " > full/n", i, "; echo ", i,
                                             " >> log; echo ", i, " > ", (*sandbox)->home(), "/h");
      const auto made = (*sandbox)->Run(Shell(round, sandbox->get()), Limits{}, nullptr);
      ASSERT_TRUE(made.ok() && made->ok()) << i << made.status() << made->err;
      auto snapshot = (*sandbox)->TakeSnapshot();
      ASSERT_TRUE(snapshot.ok()) << i << ": " << snapshot.status();
      last = *snapshot;
    }
    SandboxOptions fork;
    fork.from = last;
    auto leaf = substrate.Prepare(fork);
    ASSERT_TRUE(leaf.ok()) << leaf.status();
    for (Sandbox* seen : {sandbox->get(), leaf->get()}) {
      const auto outcome =
          seen->Run(Shell("ls; cat turn; ls full; wc -l < log; cat " + seen->home() + "/h", seen), Limits{}, nullptr);
      EXPECT_EQ(outcome->out, "f33\nfull\nlog\nturn\nfile\nn33\n34\n33\n") << outcome->err;
    }
  };
  chain(*Make());
  As(geteuid() == 0 ? kNobody : geteuid(), [&] {
    const auto substrate = Make();
    if (substrate != nullptr && substrate->probe_result().layers) chain(*substrate);
  });
}

// The archive is what a fork sees, whatever the layers of the snapshot hide, and of names and files of any length.
TEST_F(StrongTest, TheArchiveOfASnapshotHasTheFilesOfAFork) {
  for (const char* isolation : {"auto", "process"}) {
    const auto substrate = Make(isolation);
    SandboxOptions options;
    options.takes_snapshots = true;
    auto sandbox = substrate->Prepare(options);
    ASSERT_TRUE(sandbox.ok()) << sandbox.status();
    std::shared_ptr<const Snapshot> last;
    const std::string deep(60, 'd'), name(90, 'n');
    for (const std::string& step : std::initializer_list<std::string>{
             "mkdir -p empty full/sub turn gone; echo a > full/old; echo b > full/sub/old; echo x > turn/x; echo y > "
             "gone/y",
             "rm -rf full; mkdir full; echo c > full/new; rm -rf turn gone; echo file > turn; chmod 750 turn",
             "mkdir -p " + deep + "/" + deep + "; echo long > " + deep + "/" + deep + "/" + name + "; ln -s " + deep +
                 "/" + deep + "/" + name +
                 " link; mkfifo pipe; head -c 700000 /dev/zero | tr '\\0' z > big; echo h > " + (*sandbox)->home() +
                 "/h"}) {
      const auto made = (*sandbox)->Run(Shell(step, sandbox->get()), Limits{}, nullptr);
      ASSERT_TRUE(made.ok() && made->ok()) << made.status() << made->err;
      auto snapshot = (*sandbox)->TakeSnapshot();
      ASSERT_TRUE(snapshot.ok()) << snapshot.status();
      last = *snapshot;
    }
    SandboxOptions fork;
    fork.from = last;
    auto leaf = substrate->Prepare(fork);
    ASSERT_TRUE(leaf.ok()) << leaf.status();
    const std::string unpacked = folder_.path() + "/unpacked-" + isolation;
    Unpack(*last, unpacked);
    // Modes, sizes, names and targets of links; a pipe is left out.
    const std::string look =
        "find . ! -type p ! -type d -printf '%P %y %m %s %l\\n' -o -type d -printf '%P %y\\n' | sort; "
        "cat turn full/* link; md5sum big; cat ";
    const auto inside = (*leaf)->Run(Shell(look + (*leaf)->home() + "/h", leaf->get()), Limits{}, nullptr);
    ASSERT_TRUE(inside.ok() && inside->ok()) << inside.status() << inside->err;
    FILE* const outside = popen(("cd " + unpacked + "/work && { " + look + "../home/h; }").c_str(), "r");
    std::string seen(1 << 16, '\0');
    seen.resize(fread(seen.data(), 1, seen.size(), outside));
    EXPECT_EQ(pclose(outside), 0);
    EXPECT_EQ(seen, inside->out) << isolation;
    EXPECT_THAT(seen, HasSubstr("big f 644 700000")) << "so that the comparison is one";
  }
}

TEST_F(StrongTest, ASnapshotOfARunningCommandIsWholeAndTheCommandGoesOn) {
  const auto substrate = Make();
  SandboxOptions options;
  options.takes_snapshots = true;
  auto sandbox = substrate->Prepare(options).value();
  std::thread runner;
  absl::StatusOr<Outcome> outcome;
  runner = std::thread([&] {
    Limits limits;
    limits.wall_time = seconds(60);
    outcome = sandbox->Run(
        Shell("echo before > f; while [ ! -e go ]; do sleep 0.02; done; echo after >> f; cat f", sandbox.get()), limits,
        nullptr);
  });
  while (!sandbox->ReadFile("f", 100).ok()) std::this_thread::sleep_for(milliseconds(10));
  const auto snapshot = sandbox->TakeSnapshot();
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  ASSERT_TRUE(sandbox->WriteFile("go", "").ok());
  runner.join();
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->out, "before\nafter\n");
  SandboxOptions fork;
  fork.from = *snapshot;
  auto leaf = substrate->Prepare(fork).value();
  EXPECT_EQ(leaf->Run(Shell("cat f; ls", leaf.get()), Limits{}, nullptr)->out, "before\nf\n");
}

TEST_F(StrongTest, AUserWhoIsNotRootHasNamespacesToo) {
  As(geteuid() == 0 ? kNobody : geteuid(), [this] {
    const auto substrate = Make();
    if (substrate == nullptr || substrate->probe_result().isolation < IsolationLevel::kNamespaces) return;
    SandboxOptions options;
    options.takes_snapshots = true;
    auto sandbox = substrate->Prepare(options);
    ASSERT_TRUE(sandbox.ok()) << sandbox.status();
    const auto outcome = (*sandbox)->Run(
        Shell("echo x > f; id -u; ls -a / | wc -l; touch /y 2>&1; ls /root /home", sandbox->get()), Limits{}, nullptr);
    EXPECT_THAT(outcome->out, HasSubstr("65534\n")) << outcome->err;
    auto snapshot = (*sandbox)->TakeSnapshot();
    ASSERT_TRUE(snapshot.ok()) << snapshot.status();
    SandboxOptions fork;
    fork.from = *snapshot;
    auto leaf = substrate->Prepare(fork);
    ASSERT_TRUE(leaf.ok()) << leaf.status();
    EXPECT_EQ((*leaf)->Run(Shell("cat f", leaf->get()), Limits{}, nullptr)->out, "x\n");
  });
}

TEST_F(StrongTest, LandlockKeepsASandboxToItsFoldersAndTheGatewaysPort) {
  const auto substrate = Make("landlock");
  if (substrate->probe_result().isolation != IsolationLevel::kLandlock) GTEST_SKIP() << "not granted";
  const Greeter gateway("gateway here"), other("another service");
  std::ofstream(folder_.path() + "/outside") << "secret";
  auto sandbox = substrate->Prepare().value();
  const std::string url = absl::StrCat("http://127.0.0.1:", gateway.port(), "/v1");
  EXPECT_EQ(sandbox->InsideUrl(url), url);
  const auto outcome =
      sandbox->Run(Shell("echo mine > f; cat f; cat " + folder_.path() + "/outside 2>&1; touch /tmp/planted 2>&1; true",
                         sandbox.get()),
                   Limits{}, nullptr);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_THAT(outcome->out, HasSubstr("mine\n")) << outcome->err;
  EXPECT_THAT(outcome->out, HasSubstr("ermission denied"));
  EXPECT_FALSE(std::filesystem::exists("/tmp/planted"));
  EXPECT_EQ(sandbox->Run(Shell(Dial(gateway.port())), Limits{}, nullptr)->out, "gateway here\n");
  EXPECT_THAT(sandbox->Run(Shell(Dial(other.port())), Limits{}, nullptr)->out, HasSubstr("ermission"));
}

TEST_F(StrongTest, RequireRaisesTheIsolationLevel) {
  options_.work_root = folder_.path() + "/work";
  options_.isolation = "process";
  EXPECT_EQ(MakeSubstrate(options_).value()->probe_result().isolation, IsolationLevel::kProcess);
  options_.require = "namespaces";
  const auto most = MakeSubstrate(options_);
  if (most.ok()) {
    EXPECT_EQ((*most)->probe_result().isolation, IsolationLevel::kNamespaces);
  } else {
    EXPECT_THAT(std::string(most.status().message()), HasSubstr("sandbox.require is namespaces"));
  }
}

}  // namespace
}  // namespace ingot::sandbox::strong_test
