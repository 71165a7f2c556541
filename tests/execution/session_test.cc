// Sessions: programs side by side in one sandbox, their input and output, files, and every way in which they end.
#include "execution/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <memory>
#include <thread>

#include "absl/strings/str_split.h"
#include "execution/passing_sandbox.h"
#include "execution/requests.h"
#include "execution/run_to_end.h"
#include "execution/test_session.h"

namespace ingot::execution {
namespace {

using sandbox::Ending;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> Fields(const FileAnswer& answer) {
  std::vector<std::string> fields = absl::StrSplit(answer.bytes, '\0');
  if (!fields.empty()) fields.pop_back();
  return fields;
}

// Sandboxes whose kernel has killed `kills` processes so far.
class CountingSubstrate final : public sandbox::Substrate {
 public:
  CountingSubstrate(std::unique_ptr<sandbox::Substrate> inner, std::shared_ptr<std::atomic<int64_t>> kills)
      : inner_(std::move(inner)), kills_(std::move(kills)) {}
  const sandbox::ProbeResult& probe_result() const override { return inner_->probe_result(); }
  const sandbox::SubstrateOptions& options() const override { return inner_->options(); }
  absl::StatusOr<std::unique_ptr<sandbox::Sandbox>> Prepare(const sandbox::SandboxOptions& options) override {
    INGOT_ASSIGN_OR_RETURN(std::unique_ptr<sandbox::Sandbox> sandbox, inner_->Prepare(options));
    return std::make_unique<Counting>(std::move(sandbox), kills_);
  }

 private:
  class Counting final : public PassingSandbox {
   public:
    Counting(std::unique_ptr<sandbox::Sandbox> inner, std::shared_ptr<std::atomic<int64_t>> kills)
        : PassingSandbox(std::move(inner)), kills_(std::move(kills)) {}
    int64_t MemoryKills() const override { return *kills_; }

   private:
    const std::shared_ptr<std::atomic<int64_t>> kills_;
  };

  const std::unique_ptr<sandbox::Substrate> inner_;
  const std::shared_ptr<std::atomic<int64_t>> kills_;
};

TEST_F(SessionTest, AProgramThatLosesAProcessToTheMemoryLimitSaysSo) {
  const auto kills = std::make_shared<std::atomic<int64_t>>(7);  // from earlier programs
  substrate_ = std::make_unique<CountingSubstrate>(sandbox::SharedUidSubstrate(folder_.path()), kills);
  const auto session = Open();
  const auto end_of = [](const Watched& watched) { return EndingOf(watched.end->ending, watched.end->memory_kills); };
  Watched loser = Shell(*session, "read line; exit 0");
  Watched victim = Shell(*session, "echo up; exec sleep 1000");
  ASSERT_TRUE(victim.Await([&] { return victim.out == "up\n"; }));
  *kills = 8;
  ASSERT_TRUE(session->CloseInput(*loser.started.process).ok());
  session->Signal(*victim.started.process, SIGKILL);
  ASSERT_TRUE(loser.AwaitEnd() && victim.AwaitEnd());
  EXPECT_EQ(end_of(loser), "memory_full");
  EXPECT_EQ(loser.end->exit_code, 0);
  EXPECT_EQ(victim.end->ending, Ending::kMemoryFull);
  EXPECT_EQ(victim.end->signal, SIGKILL);
  Watched later = Shell(*session, "exit 0");
  ASSERT_TRUE(later.AwaitEnd());
  EXPECT_EQ(end_of(later), "exited") << "nothing was killed while it ran";
  const auto outcome = RunToEnd(*session, {.argv = {"true"}}, "", 1 << 20, nullptr);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(EndingOf(outcome->ending, outcome->memory_kills), "exited");
}

TEST_F(SessionTest, ProgramsRunSideBySideAndShareTheFiles) {
  const auto session = Open();
  Watched reader = Shell(*session, "read line; echo got $line; cat f; exit 3");
  Watched writer = Shell(*session, "printf one > f; echo written; echo trouble >&2");
  ASSERT_TRUE(writer.AwaitEnd());
  EXPECT_EQ(writer.out, "written\n");
  EXPECT_EQ(writer.err, "trouble\n");
  EXPECT_EQ(writer.end->exit_code, 0);
  ASSERT_TRUE(session->Send(*reader.started.process, "a line\n").ok());
  ASSERT_TRUE(reader.AwaitEnd());
  EXPECT_EQ(reader.out, "got a line\none");
  EXPECT_EQ(reader.end->ending, Ending::kExited);
  EXPECT_EQ(reader.end->exit_code, 3);
  EXPECT_TRUE(session->Processes().empty());
  EXPECT_TRUE(absl::IsNotFound(session->Send(*reader.started.process, "x")));
}

TEST_F(SessionTest, OutputComesWhileTheProgramRuns) {
  const auto session = Open();
  Watched program = Shell(*session, "echo first; read line; echo second");
  ASSERT_TRUE(program.Await([&] { return program.out == "first\n"; })) << program.out;
  EXPECT_FALSE(program.end.has_value());
  ASSERT_TRUE(session->CloseInput(*program.started.process).ok());
  ASSERT_TRUE(program.AwaitEnd());
  EXPECT_EQ(program.out, "first\nsecond\n");
}

TEST_F(SessionTest, NotesComeAfterTheOutputThatWasWrittenBeforeThem) {
  const auto session = Open();
  Watched program = Start(*session, {.argv = {"python3", "-c", R"(import os
for i in range(300):
    os.write(1, b"o" * 500); os.write(2, b"e" * 500); os.write(3, b"%d\n" % i))"},
                                     .has_notes = true});
  size_t seen = 0;
  bool in_order = true;
  ASSERT_TRUE(program.bell->Await([&] {
    const Subscription::News news = program.started.subscription->TakeNews();
    for (const auto& chunk : news.chunks) {
      (chunk->stream == Stream::kOut ? program.out : program.err) +=
          chunk->stream == Stream::kNotes ? "" : chunk->bytes;
      if (chunk->stream != Stream::kNotes) continue;
      seen += static_cast<size_t>(std::count(chunk->bytes.begin(), chunk->bytes.end(), '\n'));
      in_order = in_order && program.out.size() >= seen * 500 && program.err.size() >= seen * 500;
    }
    return news.end.has_value();
  }));
  EXPECT_EQ(seen, 300u);
  EXPECT_TRUE(in_order);
}

TEST_F(SessionTest, OutputThatNobodyTakesStopsTheProgramAndNotTheSession) {
  const auto session = Open();
  Watched writer = Start(*session, {.argv = {"python3", "-uc", R"(import os, sys
for i in range(4096): os.write(1, b"x" * 4096)
)"}});
  // 16 MiB were written if nobody held the writer: a window and a pipe are the most.
  std::vector<std::shared_ptr<const Chunk>> held;
  size_t bytes = 0;
  for (int i = 0; i < 40 || (held.empty() && i < 6000); ++i) {  // Python takes its time to start
    const Subscription::News news = writer.started.subscription->TakeNews();
    held.insert(held.end(), news.chunks.begin(), news.chunks.end());
    ASSERT_FALSE(news.end.has_value());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  for (const auto& chunk : held) bytes += chunk->bytes.size();
  EXPECT_GT(bytes, 0u);
  EXPECT_LE(bytes, kWindowBytes + (64u << 10));
  EXPECT_EQ(Start(*session, {.argv = {"true"}}).AwaitEnd(), true) << "others go on";
  held.clear();
  ASSERT_TRUE(writer.AwaitEnd());
  EXPECT_EQ(writer.end->exit_code, 0);
  EXPECT_EQ(bytes + writer.out.size(), 4096u * 4096u);
}

TEST_F(SessionTest, ASignalReachesTheWholeProcessGroup) {
  const auto session = Open();
  Watched program = Shell(*session, "sleep 3000 & echo $!; wait");
  ASSERT_TRUE(program.Await([&] { return !program.out.empty(); }));
  const std::string child = program.out.substr(0, program.out.size() - 1);
  session->Signal(*program.started.process, SIGKILL);
  ASSERT_TRUE(program.AwaitEnd());
  EXPECT_EQ(program.end->ending, Ending::kSignalled);
  EXPECT_EQ(program.end->signal, SIGKILL);
  Watched look = Shell(*session, "while kill -0 " + child + " 2>/dev/null; do sleep 0.01; done");
  EXPECT_TRUE(look.AwaitEnd());
}

TEST_F(SessionTest, ATimeLimitEndsAProgram) {
  const auto session = Open();
  Watched program = Start(*session, {.argv = {"sleep", "1000"}, .wall_time = std::chrono::milliseconds(100)});
  ASSERT_TRUE(program.AwaitEnd());
  EXPECT_EQ(program.end->ending, Ending::kTimedOut);
}

TEST_F(SessionTest, ADaemonOutlivesItsProgramAndMayGoOnWriting) {
  const auto session = Open();
  Watched program = Shell(*session, "(sleep 0.2; echo late; echo alive > f) & echo done");
  ASSERT_TRUE(program.AwaitEnd());
  EXPECT_EQ(program.out, "done\n");
  Watched look = Shell(*session, "while ! grep -q alive f 2>/dev/null; do sleep 0.01; done");
  EXPECT_TRUE(look.AwaitEnd()) << "writing after the program's end must not kill the daemon";
}

TEST_F(SessionTest, ProgramsThatCannotRunAreNamed) {
  const auto session = Open({.processes = 1});
  EXPECT_THAT(session->Start({.argv = {"no-such-program"}}, nullptr).status().message(), HasSubstr("no-such-program"));
  EXPECT_TRUE(absl::IsNotFound(session->Start({.argv = {"no-such-program"}}, nullptr).status()));
  EXPECT_TRUE(absl::IsNotFound(session->Start({.argv = {"true"}, .folder = "/no/such"}, nullptr).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(session->Start({.argv = {}}, nullptr).status()));
  const auto first = session->Start({.argv = {"sleep", "1000"}}, nullptr);
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(absl::IsResourceExhausted(session->Start({.argv = {"true"}}, nullptr).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(session->Send(*first->process, "x"))) << "it has no stdin";
}

TEST_F(SessionTest, InputThatAProgramDoesNotReadIsRejected) {
  const auto session = Open();
  Watched program = Shell(*session, "sleep 1000");
  absl::Status status;
  for (int i = 0; i < 100 && status.ok(); ++i)
    status = session->Send(*program.started.process, std::string(60000, 'x'));
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

// The guest agent stands still for a second, so that orders fill the session's outbox.
TEST_F(SessionTest, InputThatTheSessionRejectedMayBeSentAgain) {
  const auto session = Open();
  Watched reader = Shell(*session, "cat > /dev/null");
  Watched stopper = Shell(*session, "read line; kill -STOP $PPID; sleep 1; kill -CONT $PPID");
  ASSERT_TRUE(session->Send(*stopper.started.process, "now\n").ok());
  const auto is_full = std::make_shared<std::atomic<bool>>(false);
  const std::string part(1 << 20, 'x'), input(60000, 'x');
  for (int i = 0; i < 200 && !*is_full; ++i) {  // until it stands still it takes them
    session->Order(FileOp::kWrite, {}, "f", "", part, [is_full](const FileAnswer& answer) {
      if (absl::IsResourceExhausted(answer.status)) *is_full = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ASSERT_TRUE(*is_full) << "the guest agent did not stand still";
  // 30 times 60,000 bytes are more than a process may leave untaken.
  for (int i = 0; i < 30; ++i) session->Send(*reader.started.process, input).IgnoreError();
  ASSERT_TRUE(stopper.AwaitEnd());
  absl::Status sent = absl::UnknownError("not sent");
  for (int tries = 0; tries < 1000 && !sent.ok(); ++tries) {
    sent = session->Send(*reader.started.process, input);
    if (!sent.ok()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(sent.ok()) << sent;
}

TEST_F(SessionTest, AnEndedSessionEndsItsProgramsWithTheReason) {
  const auto session = Open();
  Watched program = Shell(*session, "sleep 1000");
  session->End("the test ends it");
  ASSERT_TRUE(program.AwaitEnd());
  EXPECT_EQ(program.end->ending, Ending::kCancelled);
  EXPECT_EQ(program.end->why, "the test ends it");
  EXPECT_THAT(session->Start({.argv = {"true"}}, nullptr).status().message(), HasSubstr("the test ends it"));
  EXPECT_THAT(session->Ask(FileOp::kStat, {}, "f").status.message(), HasSubstr("the test ends it"));
}

TEST_F(SessionTest, AGuestAgentThatIsKilledIsNamed) {
  const auto session = Open();
  Watched program = Shell(*session, "read line; kill -9 $PPID; sleep 1000");
  ASSERT_TRUE(session->Send(*program.started.process, "now\n").ok());
  ASSERT_TRUE(program.AwaitEnd());
  EXPECT_EQ(program.end->ending, Ending::kCancelled);
  EXPECT_THAT(program.end->why, HasSubstr("guest agent was killed"));
}

// Writes frames of its own into the guest agent's socket, as a program with the right to trace it may.
constexpr char kForge[] = R"py(
import ctypes, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
held = libc.syscall(438, os.pidfd_open(os.getppid()), 1, 0)
if held < 0:
    print("refused", flush=True); sys.exit(0)
link = socket.socket(fileno=held)
if sys.argv[1] == "size": link.sendall(struct.pack("=4I", 1 << 30, 103, 1, 0))
if sys.argv[1] == "kind": link.sendall(struct.pack("=4I", 0, 55, 1, 0))
if sys.argv[1] == "end": link.sendall(struct.pack("=4I", 3, 107, 1, 0) + b"abc")
if sys.argv[1] == "flood":
    for i in range(200): link.sendall(struct.pack("=4I", 1 << 16, 103, int(sys.argv[2]), 0) + b"x" * (1 << 16))
import time; time.sleep(1000)
)py";

TEST_F(SessionTest, AGuestAgentThatForgesItsMessagesEndsTheSession) {
  for (const std::string forgery : {"size", "kind", "end", "flood"}) {
    const auto session = Open();
    Watched held = Shell(*session, "sleep 1000");
    const std::string id = std::to_string(held.started.process->id());
    Watched forger = Start(*session, {.argv = {"python3", "-c", kForge, forgery, id}});
    ASSERT_TRUE(forger.Await([&] { return forger.end.has_value() || forger.out == "refused\n"; })) << forgery;
    if (!forger.out.empty()) GTEST_SKIP() << "a program may not trace the guest agent here";
    EXPECT_EQ(forger.end->ending, Ending::kCancelled) << forgery;
    EXPECT_THAT(forger.end->why, HasSubstr("sent an invalid message")) << forgery;
  }
}

TEST_F(SessionTest, FilesAreThoseThatProgramsSee) {
  const auto session = Open();
  const std::string big(600'000, 'b');
  ASSERT_TRUE(session->Ask(FileOp::kWrite, {}, "deep/er/f", "", big).status.ok());
  ASSERT_TRUE(session->Ask(FileOp::kWrite, {.offset = big.size()}, "deep/er/f", "", "end").status.ok());
  std::string read;
  while (true) {
    const FileAnswer part = session->Ask(FileOp::kRead, {.offset = read.size(), .length = kFileChunk}, "deep/er/f");
    ASSERT_TRUE(part.status.ok()) << part.status;
    if (part.bytes.empty()) break;
    read += part.bytes;
  }
  EXPECT_EQ(read, big + "end");
  Watched look = Shell(*session, "wc -c < deep/er/f; ln -s er deep/link; touch deep/x");
  ASSERT_TRUE(look.AwaitEnd());
  EXPECT_EQ(look.out, "600003\n");
  const std::vector<std::string> entries = Fields(session->Ask(FileOp::kList, {.depth = 2}, "deep"));
  ASSERT_EQ(entries.size(), 4u * kFileFields);
  std::vector<std::string> names;
  for (size_t i = 0; i < entries.size(); i += kFileFields)
    names.push_back(entries[i + kType] + " " + entries[i + kPath].substr(session->folder().size() + 1) + " " +
                    entries[i + kTarget]);
  EXPECT_THAT(names, ElementsAre("d deep/er ", "f deep/er/f ", "l deep/link er", "f deep/x "));
  EXPECT_EQ(Fields(session->Ask(FileOp::kMove, {}, "deep/x", "other/y"))[kPath], session->folder() + "/other/y");
  EXPECT_TRUE(session->Ask(FileOp::kMakeFolder, {}, "new/folder").status.ok());
  EXPECT_TRUE(absl::IsAlreadyExists(session->Ask(FileOp::kMakeFolder, {}, "new/folder").status));
  EXPECT_TRUE(session->Ask(FileOp::kRemove, {}, "deep").status.ok());
  EXPECT_TRUE(absl::IsNotFound(session->Ask(FileOp::kStat, {}, "deep").status));
}

TEST_F(SessionTest, FileOrdersThatCannotBeAreNamed) {
  const auto session = Open();
  Watched pipe = Shell(*session, "mkfifo pipe");
  ASSERT_TRUE(pipe.AwaitEnd());
  EXPECT_TRUE(absl::IsInvalidArgument(session->Ask(FileOp::kRead, {.length = 10}, "pipe").status))
      << "nor does it wait";
  EXPECT_TRUE(absl::IsInvalidArgument(session->Ask(FileOp::kRead, {.length = 10}, ".").status));
  const absl::Status missing = session->Ask(FileOp::kRead, {.length = 10}, "none").status;
  EXPECT_TRUE(absl::IsNotFound(missing));
  EXPECT_THAT(missing.message(), HasSubstr("none: No such file"));
  EXPECT_TRUE(absl::IsInvalidArgument(session->Ask(FileOp::kStat, {}, std::string("a\0b", 3)).status));
  Watched many = Shell(*session, "mkdir many; cd many; seq 10001 | xargs touch");
  ASSERT_TRUE(many.AwaitEnd());
  EXPECT_THAT(session->Ask(FileOp::kList, {}, "many").status.message(), HasSubstr("10000 entries"));
}

TEST_F(SessionTest, BehindTheStrongestWallTheGuestAgentAndItsProgramsWorkTheSame) {
  sandbox::SubstrateOptions options;
  options.work_root = folder_.path();
  auto substrate = sandbox::LocalSubstrate::Make(options);
  ASSERT_TRUE(substrate.ok()) << substrate.status();
  if (!(*substrate)->probe_result().root_folder) GTEST_SKIP() << "the machine grants no namespaces";
  substrate_ = *std::move(substrate);
  SessionOptions home;
  home.sandbox.binds = {{.folder = "work", .at = "/home/user"}};
  home.folder = home.home = "/home/user";
  const auto session = Open(home);
  ASSERT_NE(session, nullptr);
  Watched program = Shell(*session, "pwd; cd; echo text > f; cat /home/user/f; ls /root; ls /proc | grep -c '^[0-9]'");
  ASSERT_TRUE(program.AwaitEnd());
  EXPECT_THAT(program.out, HasSubstr("/home/user\ntext\n")) << program.err;
  EXPECT_EQ(session->Ask(FileOp::kRead, {.length = 100}, "/home/user/f").bytes, "text\n");
  EXPECT_FALSE(session->Ask(FileOp::kWrite, {}, "/etc/f", "", "x").status.ok());
}

TEST_F(SessionTest, ManySessionsEndTogether) {
  std::vector<std::shared_ptr<Session>> sessions;
  for (int i = 0; i < 8; ++i) sessions.push_back(Open());
  for (const auto& session : sessions) ASSERT_TRUE(session->Start({.argv = {"sleep", "1000"}}, nullptr).ok());
  sessions.clear();
}

TEST_F(SessionTest, RunToEndGathersWhatBatchesNeed) {
  const auto session = Open();
  const std::string text(3 << 20, 't');
  const auto counted = RunToEnd(*session, {.argv = {"wc", "-c"}}, text, 1000, nullptr);
  ASSERT_TRUE(counted.ok()) << counted.status();
  EXPECT_EQ(counted->out, "3145728\n");
  const auto flood = RunToEnd(*session, {.argv = {"cat", "/dev/zero"}}, "", 1000, nullptr);
  ASSERT_TRUE(flood.ok());
  EXPECT_EQ(flood->ending, Ending::kOutputOverflow);
  EXPECT_EQ(flood->out.size(), 1000u);
}

// The program of the sandbox is the guest agent's child, and may stop it.
TEST_F(SessionTest, ItEndsIfItsGuestAgentDoesNotEndAKilledProgram) {
  SessionOptions options;
  options.timeout = std::chrono::seconds(2);
  const auto session = Open(options);
  ASSERT_NE(session, nullptr);
  Watched program = Shell(*session, "read line; kill -STOP $PPID; sleep 1000");
  ASSERT_NE(program.started.process, nullptr);
  EXPECT_TRUE(session->Send(*program.started.process, "\n").ok());
  // Until it is stopped: then an order waits in vain.
  while (session->Ask(FileOp::kStat, {}, "").status.ok()) {
  }
  session->SetDeadline(*program.started.process, std::chrono::nanoseconds(0), SIGKILL);
  EXPECT_TRUE(program.AwaitEnd());
  EXPECT_EQ(program.end->ending, sandbox::Ending::kCancelled);
  EXPECT_EQ(program.end->why, kNoAnswer);
  EXPECT_TRUE(session->has_ended());
}

}  // namespace
}  // namespace ingot::execution
