// The service that executes code: requests through its handler, in sandboxes of the test's own uid.
#include "execution/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <thread>

#include "execution/test_client.h"
#include "sandbox/test_image.h"

namespace ingot::execution {
namespace {

using base::json::value;
using testing::HasSubstr;
using testing::Not;

// A substrate whose sandboxes wait while its gate is shut. It keeps the options of the last sandbox.
class GatedSubstrate final : public sandbox::Substrate {
 public:
  explicit GatedSubstrate(std::unique_ptr<sandbox::Substrate> inner) : inner_(std::move(inner)) {}
  const sandbox::ProbeResult& probe_result() const override { return inner_->probe_result(); }
  const sandbox::SubstrateOptions& options() const override { return inner_->options(); }
  absl::StatusOr<std::unique_ptr<sandbox::Sandbox>> Prepare(const sandbox::SandboxOptions& options) override {
    {
      std::unique_lock lock(mu_);
      last_ = options;
      ++waiting_;
      changed_.notify_all();
      changed_.wait(lock, [this] { return is_open_; });
      --waiting_;
    }
    return inner_->Prepare(options);
  }

  void SetOpen(bool is_open) {
    const std::lock_guard lock(mu_);
    is_open_ = is_open;
    changed_.notify_all();
  }
  bool AwaitWaiting(int count) {
    std::unique_lock lock(mu_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [&] { return waiting_ >= count; });
  }
  sandbox::SandboxOptions last() {
    const std::lock_guard lock(mu_);
    return last_;
  }

 private:
  const std::unique_ptr<sandbox::Substrate> inner_;
  std::mutex mu_;
  std::condition_variable changed_;
  bool is_open_ = true;
  int waiting_ = 0;
  sandbox::SandboxOptions last_;
};

// A program runs whose command line has the word.
bool Runs(const std::string& word) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline");
    const std::string line{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    if (line.find(word) != std::string::npos) return true;
  }
  return false;
}

// Seconds to sleep that no other process of the machine sleeps.
std::string OwnSeconds(int which) { return std::to_string(100'000'000 + which * 10'000'000 + getpid()); }

class OwnApiTest : public ServiceTest {
 protected:
  std::string Open(const std::string& body = "") {
    const http::Reply reply = Ask("POST", "/ingot/v1/sessions", body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return "/ingot/v1/sessions/" + std::string(Json(reply).at("id").get_string());
  }
  value Case(const http::Reply& reply, size_t index = 0) {
    EXPECT_EQ(reply.status, 200) << reply.body;
    return Json(reply).at("cases").get_array()[index];
  }
};

TEST_F(OwnApiTest, CasesRunInOneSandboxAndEachHasItsOutcome) {
  const http::Reply reply = Ask("POST", "/ingot/v1/execute", R"json({"language": "python", "files": {"data/n": "20"},
      "code": "import sys\nn = int(open('data/n').read())\nprint(n + int(input()))",
      "cases": [{"stdin": "1\n"}, {"stdin": "22\n"}, {"stdin": "x\n"}]})json");
  EXPECT_EQ(Case(reply, 0).at("stdout").get_string(), "21\n");
  EXPECT_EQ(Case(reply, 1).at("stdout").get_string(), "42\n");
  EXPECT_EQ(Case(reply, 2).at("exit_code").get_int64(), 1);
  EXPECT_THAT(std::string(Case(reply, 2).at("stderr").get_string()), HasSubstr("ValueError"));
}

TEST_F(OwnApiTest, LimitsOfARequestHold) {
  const std::string session = Open();
  const std::vector<std::string> targets = {"/ingot/v1/execute", session + "/execute"};
  for (const std::string& target : targets) {
    const auto ending = [&](const std::string& body) {
      return std::string(Case(Ask("POST", target, body)).at("ending").get_string());
    };
    EXPECT_EQ(ending(R"({"command": ["sleep", "100"], "limits": {"wall_s": 0.2}})"), "timeout");
    EXPECT_EQ(ending(R"({"command": ["cat", "/dev/zero"], "limits": {"output_bytes": 10}})"), "output_overflow");
    EXPECT_EQ(ending(R"({"command": ["sh", "-c", "kill -9 $$"]})"), "signalled");
    const value memory = Case(Ask("POST", target, R"json({"command": ["python3", "-c", "x = bytes(300 << 20)"],
        "limits": {"memory_bytes": 200000000}})json"));
    EXPECT_THAT(std::string(memory.at("stderr").get_string()), HasSubstr("MemoryError")) << target;
  }
}

TEST_F(OwnApiTest, ACaseMayBeATextAlone) {
  const http::Reply reply =
      Ask("POST", "/ingot/v1/execute", R"({"command": ["cat"], "cases": ["21", {"stdin": "22"}]})");
  EXPECT_EQ(Case(reply, 0).at("stdout").get_string(), "21");
  EXPECT_EQ(Case(reply, 1).at("stdout").get_string(), "22");
}

TEST_F(OwnApiTest, TheTimeOfAWholeRequestEndsItsCases) {
  const std::string session = Open();
  for (const std::string& target : {std::string("/ingot/v1/execute"), session + "/execute"}) {
    std::vector<std::string> endings;
    // A busy machine may need more time to begin the first case.
    for (double total = 0.5; total < 100 && (endings.empty() || endings[0] == "not_run"); total *= 2) {
      const base::json::object limits{{"wall_s", 1000}, {"total_s", total}};
      const http::Reply reply = Ask("POST", target,
                                    base::PrintJson({{"language", "shell"},
                                                     {"code", "read n; sleep $n"},
                                                     {"cases", {"1000", "0", "0"}},
                                                     {"limits", limits}}));
      endings.clear();
      for (size_t i = 0; i < 3; ++i) endings.emplace_back(Case(reply, i).at("ending").get_string());
    }
    EXPECT_THAT(endings, testing::ElementsAre("total_timeout", "not_run", "not_run")) << target;
  }
}

TEST_F(OwnApiTest, AClientThatGoesAwayEndsItsBatch) {
  ServiceOptions options;
  options.slots = 1;
  Make(options);
  const std::string session = Open();
  int which = 0;
  for (const std::string& target : {std::string("/ingot/v1/execute"), session + "/execute"}) {
    const std::string seconds = OwnSeconds(which++);
    auto call = Begin("POST", target,
                      R"({"command": ["sleep", ")" + seconds + R"("], "cases": ["", ""], "limits": {"wall_s": 3600}})");
    EXPECT_TRUE(Eventually([&] { return Runs(seconds); }));
    call.reset();
    EXPECT_TRUE(Eventually([&] { return !Runs(seconds); })) << target;
    EXPECT_EQ(Ask("POST", target, R"({"command": ["true"]})").status, 200) << "the slot is free";
  }
}

TEST_F(OwnApiTest, TheServicesEndEndsBatches) {
  ServiceOptions options;
  options.slots = 1;
  Make(options);
  const std::string seconds = OwnSeconds(2);
  const std::string body = R"({"command": ["sleep", ")" + seconds + R"("], "limits": {"wall_s": 60}})";
  const auto running = Begin("POST", "/ingot/v1/execute", body), waiting = Begin("POST", "/ingot/v1/execute", body);
  EXPECT_TRUE(Eventually([&] { return Runs(seconds); }));
  const auto start = std::chrono::steady_clock::now();
  service_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(50));
  EXPECT_FALSE(Runs(seconds));
}

TEST_F(OwnApiTest, CellsGoOnWhileSessionsWaitForTheirSandboxes) {
  auto gated = std::make_unique<GatedSubstrate>(sandbox::SharedUidSubstrate(folder_.path() + "/work"));
  GatedSubstrate& gate = *gated;
  MakeOn(std::move(gated));
  const std::string session = Open();
  gate.SetOpen(false);
  std::vector<std::unique_ptr<Call>> opening;
  for (int i = 0; i < 5; ++i) {
    for (const char* const target : {"/ingot/v1/sessions", "/sandboxes", "/v2/sandboxes/"})
      opening.push_back(Begin("POST", target, "{}"));
  }
  EXPECT_TRUE(gate.AwaitWaiting(15));
  EXPECT_EQ(Json(Ask("POST", session + "/cells", R"({"code": "6 * 7"})")).at("count").get_int64(), 1);
  gate.SetOpen(true);
  for (const auto& each : opening) EXPECT_LT(each->Reply().status, 300) << each->Reply().body;
}

TEST_F(OwnApiTest, ASessionWhoseClientWentAwayWhileItOpenedIsEnded) {
  int which = 0;
  for (const std::string target : {"/ingot/v1/sessions", "/sandboxes"}) {
    auto gated = std::make_unique<GatedSubstrate>(
        sandbox::SharedUidSubstrate(folder_.path() + "/work-" + std::to_string(which++)));
    GatedSubstrate& gate = *gated;
    ServiceOptions options;
    options.store.sessions = 1;
    MakeOn(std::move(gated), options);
    gate.SetOpen(false);
    auto call = Begin("POST", target, "{}");
    EXPECT_TRUE(gate.AwaitWaiting(1));
    EXPECT_TRUE(Eventually([&] { return call->has_woken(); })) << "the request is the opening thread's";
    call.reset();
    gate.SetOpen(true);
    EXPECT_TRUE(Eventually([&] { return Ask("POST", target, "{}").status < 300; })) << target << ": one is the most";
  }
}

TEST_F(OwnApiTest, TotalsOfABatchAreItsSandboxes) {
  auto gated = std::make_unique<GatedSubstrate>(sandbox::SharedUidSubstrate(folder_.path() + "/work"));
  GatedSubstrate& gate = *gated;
  MakeOn(std::move(gated));
  const auto totals = [&](const std::string& limits) {
    EXPECT_EQ(Ask("POST", "/ingot/v1/execute", R"({"command": ["true"], "limits": )" + limits + "}").status, 200);
    return gate.last().totals;
  };
  EXPECT_EQ(totals("{}"), sandbox::GroupLimits());
  EXPECT_EQ(totals(R"({"memory_bytes": 1000000000, "processes": 50, "cpus": 0.5})"),
            (sandbox::GroupLimits{.memory_bytes = 1'000'000'000, .processes = 50, .cpus = 0.5}));
  EXPECT_EQ(totals(R"({"memory_bytes": 1000000000000})").memory_bytes, gate.options().totals.memory_bytes)
      << "a client cannot have more than a sandbox's share";
}

// Each process stays below the limit, and together they pass it.
TEST_F(OwnApiTest, AControlGroupHoldsTheMemoryOfABatch) {
  sandbox::SubstrateOptions options;
  options.work_root = folder_.path() + "/work";
  auto substrate = sandbox::LocalSubstrate::Make(options);
  ASSERT_TRUE(substrate.ok()) << substrate.status();
  if ((*substrate)->probe_result().isolation != sandbox::IsolationLevel::kFull) GTEST_SKIP() << "needs control groups";
  MakeOn(*std::move(substrate));
  const value ran = Case(Ask("POST", "/ingot/v1/execute", R"json({"language": "python", "code":
      "import os\nfor i in range(8):\n  if os.fork() == 0:\n    held = b'x' * (60 << 20)\n    os._exit(0)\nends = [os.wait()[1] for i in range(8)]\nprint(ends)\nprint(9 in ends)",
      "limits": {"memory_bytes": 150000000, "wall_s": 100}})json"));
  EXPECT_TRUE(ran.at("stdout").get_string().find("True") != std::string::npos || ran.at("signal").get_int64() == 9)
      << base::PrintJson(ran);
  EXPECT_EQ(ran.at("ending").get_string(), "memory_full") << base::PrintJson(ran);
  const value least = Case(Ask("POST", "/ingot/v1/execute",
                               R"({"command": ["sh", "-c", "echo up | cat"], "limits": {"memory_bytes": 16777216,
                                   "processes": 8, "cpus": 0.05, "wall_s": 100}})"));
  EXPECT_EQ(least.at("stdout").get_string(), "up\n") << base::PrintJson(least);
  Open(R"({"limits": {"memory_bytes": 16777216, "processes": 8}})");

  const std::string session = Open(R"({"limits": {"memory_bytes": 150000000}})");
  const std::string children = R"json({"language": "python", "code":
      "import os\nfor i in range(5):\n  if os.fork() == 0:\n    held = b'x' * (60 << 20)\n    os._exit(0)\nprint([os.wait()[1] for i in range(5)])",
      "limits": {"wall_s": 100})json";
  const value together = Case(Ask("POST", session + "/execute", children + "}"));
  EXPECT_EQ(together.at("ending").get_string(), "memory_full") << base::PrintJson(together);
  EXPECT_THAT(Begin("POST", session + "/execute", children + R"(, "stream": true})")->Bytes(),
              HasSubstr(R"("ending":"memory_full")"));
  EXPECT_EQ(Case(Ask("POST", session + "/execute", R"({"command": ["true"]})")).at("ending").get_string(), "exited");
}

TEST_F(OwnApiTest, ASessionKeepsFilesAndPrograms) {
  ServiceOptions options;
  options.store.sessions = 1;
  Make(options);
  const std::string session = Open();
  EXPECT_EQ(Ask("POST", session + "/execute", R"({"language": "shell", "code": "echo one > f"})").status, 200);
  EXPECT_EQ(Case(Ask("POST", session + "/execute", R"({"command": ["cat", "f"]})")).at("stdout").get_string(), "one\n");
  const auto server =
      Begin("POST", session + "/execute", R"({"command": ["sh", "-c", "echo up; exec sleep 1000"], "stream": true})");
  EXPECT_TRUE(server->Await([&] { return server->so_far().find("up") != std::string::npos; }));
  EXPECT_EQ(Json(Ask("GET", session, "")).at("programs").to_number<int>(), 1);
  EXPECT_EQ(Ask("POST", "/ingot/v1/sessions", "").status, 429) << "one is the most here";
  EXPECT_EQ(Json(Ask("GET", "/ingot/v1/sessions", "")).at("sessions").get_array().size(), 1u);
  EXPECT_EQ(Ask("DELETE", session, "").status, 200);
  EXPECT_THAT(server->Bytes(), HasSubstr(R"("ending":"cancelled")"));
  EXPECT_EQ(Ask("POST", session + "/execute", R"({"command": ["true"]})").status, 404);
  EXPECT_EQ(Ask("DELETE", session, "").status, 404);
}

TEST_F(OwnApiTest, FilesAreReadWrittenListedAndRemoved) {
  const std::string session = Open();
  const std::string big(700'000, 'z');
  EXPECT_EQ(Ask("PUT", session + "/files/src/a%20b.txt", big).status, 200);
  EXPECT_EQ(Begin("GET", session + "/files/src/a%20b.txt", "")->Bytes(), big);
  EXPECT_EQ(Ask("PUT", session + "/files/src/empty", "").status, 200);
  EXPECT_EQ(Begin("GET", session + "/files/src/empty", "")->Bytes(), "");
  const value entries = Json(Ask("GET", session + "/files/src", "")).at("entries");
  ASSERT_EQ(entries.get_array().size(), 2u);
  EXPECT_EQ(entries.get_array()[0].at("size").to_number<int>(), 700'000);
  EXPECT_EQ(entries.get_array()[0].at("type").get_string(), "file");
  EXPECT_EQ(Ask("DELETE", session + "/files/src", "").status, 200);
  EXPECT_EQ(Ask("GET", session + "/files/src", "").status, 404);
  EXPECT_EQ(Ask("PUT", session + "/files/%2Fproc%2Fversion", "x").status, 400) << "not the sandbox's to write";
}

// A repository is put into a session, patched and tested there, and its difference taken out.
TEST_F(OwnApiTest, ASessionTakesPatchesOfARepository) {
  if (std::system("command -v git >/dev/null 2>&1") != 0) GTEST_SKIP() << "needs git";
  const std::string session = Open();
  const auto shell = [&](const std::string& code) {
    const base::json::object asked{{"language", "shell"}, {"code", code}};
    return Case(Ask("POST", session + "/execute", base::PrintJson(asked)));
  };
  EXPECT_EQ(Ask("PUT", session + "/files/repo/add.py", "def add(a, b):\n    return a - b\n").status, 200);
  const value made = shell(
      "cd repo && git init -q && git config user.email a@b && git config user.name a && git add -A && git commit -qm "
      "first");
  EXPECT_EQ(made.at("exit_code").get_int64(), 0) << base::PrintJson(made);
  const std::string test = "cd repo && python3 -B -c 'import add; assert add.add(2, 3) == 5'";
  EXPECT_NE(shell(test).at("exit_code").get_int64(), 0);
  const std::string fix =
      "--- a/add.py\n+++ b/add.py\n@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a - b\n+    return a + b\n";
  EXPECT_EQ(Ask("PUT", session + "/files/fix.patch", fix).status, 200);
  EXPECT_EQ(shell("cd repo && git apply ../fix.patch").at("exit_code").get_int64(), 0);
  EXPECT_EQ(shell(test).at("exit_code").get_int64(), 0);
  const value again = shell("cd repo && git apply ../fix.patch");
  EXPECT_NE(again.at("exit_code").get_int64(), 0);
  EXPECT_THAT(std::string(again.at("stderr").get_string()), HasSubstr("patch does not apply"));
  EXPECT_EQ(shell("cd repo && git diff > ../out.patch").at("exit_code").get_int64(), 0);
  EXPECT_THAT(Begin("GET", session + "/files/out.patch", "")->Bytes(), HasSubstr(fix.substr(fix.find("@@"))));
  EXPECT_EQ(shell("cd repo && git checkout -q . && cat add.py").at("stdout").get_string(),
            "def add(a, b):\n    return a - b\n");
}

// The image has the interpreter: here its shell, and no Python.
TEST_F(OwnApiTest, AnImageHasTheLanguages) {
  if (!sandbox::MakeTestImage(folder_.path())) GTEST_SKIP() << "needs skopeo, umoci and busybox-static";
  sandbox::SubstrateOptions options;
  options.work_root = folder_.path() + "/work";
  options.images = folder_.path() + "/images";
  auto substrate = sandbox::LocalSubstrate::Make(options);
  ASSERT_TRUE(substrate.ok()) << substrate.status();
  if (!(*substrate)->probe_result().layers || !(*substrate)->probe_result().root_folder)
    GTEST_SKIP() << "no sandboxes with images here";
  ServiceOptions service;
  service.image_folders = {folder_.path()};
  MakeOn(*std::move(substrate), service);
  const std::string image = R"("image": "docker-archive:)" + folder_.path() + R"(/image.tar")";
  const value ran =
      Case(Ask("POST", "/ingot/v1/execute", "{" + image + R"(, "language": "shell", "cases": [{"stdin": "in\n"}],
                                 "code": "read line; cat /app/greeting; echo $GREETING $line; ls /usr 2>&1"})"));
  EXPECT_THAT(std::string(ran.at("stdout").get_string()), HasSubstr("from the image\nhello in\n"))
      << base::PrintJson(ran);
  EXPECT_THAT(std::string(ran.at("stdout").get_string()), HasSubstr("No such file"))
      << "the machine's files are not there";
  const http::Reply python = Ask("POST", "/ingot/v1/execute", "{" + image + R"(, "language": "python", "code": "1"})");
  EXPECT_NE(python.status, 200) << python.body;
  EXPECT_THAT(python.body, HasSubstr("python3"));
  // A session on it keeps its changes; another one begins with the image's files.
  const std::string session = Open("{" + image + "}"), other = Open("{" + image + "}");
  const auto shell = [&](const std::string& of, const std::string& code) {
    return std::string(Case(Ask("POST", of + "/execute", base::PrintJson({{"language", "shell"}, {"code", code}})))
                           .at("stdout")
                           .get_string());
  };
  EXPECT_EQ(shell(session, "echo mine > /app/greeting; echo $GREETING"), "hello\n");
  EXPECT_EQ(shell(session, "cat /app/greeting"), "mine\n");
  EXPECT_EQ(shell(other, "cat /app/greeting"), "from the image\n");
}

TEST_F(OwnApiTest, AStreamHasOutputAsItComesAndTheEndLast) {
  const std::string session = Open();
  const auto call =
      Begin("POST", session + "/execute",
            R"({"language": "shell", "stream": true, "code": "echo one; echo two >&2; printf '\\303'; exit 4"})");
  const std::string& events = call->Bytes();
  EXPECT_EQ(call->content_type(), "text/event-stream");
  EXPECT_THAT(events, HasSubstr("data: {\"stdout\":\"one\\n\"}\n\n"));
  EXPECT_THAT(events, HasSubstr("data: {\"stderr\":\"two\\n\"}\n\n"));
  EXPECT_THAT(events, HasSubstr("data: {\"stdout\":\"\uFFFD\"}\n\n")) << "half a character";
  EXPECT_THAT(events.substr(events.rfind("data:")), HasSubstr(R"({"end":{"ending":"exited","exit_code":4,)"));
}

TEST_F(OwnApiTest, AClientThatGoesAwayEndsItsProgram) {
  const std::string session = Open();
  auto call =
      Begin("POST", session + "/execute", R"({"command": ["sh", "-c", "echo on; sleep 1000"], "stream": true})");
  EXPECT_TRUE(call->Await([&] { return call->so_far().find("on") != std::string::npos; }));
  call.reset();
  for (int tries = 0; tries < 6000; ++tries) {
    if (Json(Ask("GET", session, "")).at("programs").to_number<int>() == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  FAIL() << "the program goes on";
}

TEST_F(OwnApiTest, CellsKeepTheirState) {
  const std::string session = Open();
  EXPECT_EQ(Ask("POST", session + "/cells", R"({"code": "x = 20"})").status, 200);
  const value answer = Json(Ask("POST", session + "/cells", R"({"code": "print('hello')\nx + 1"})"));
  EXPECT_EQ(answer.at("stdout").get_string(), "hello\n");
  EXPECT_EQ(answer.at("results").get_array()[0].at("text").get_string(), "21");
  EXPECT_TRUE(answer.at("error").is_null());
  EXPECT_EQ(answer.at("ending").get_string(), "done");
  EXPECT_EQ(answer.at("count").get_int64(), 2);
  const value failed = Json(Ask("POST", session + "/cells", R"({"code": "1 / 0"})"));
  EXPECT_EQ(failed.at("error").at("name").get_string(), "ZeroDivisionError");
  const value flood = Json(Ask("POST", session + "/cells", R"json({"code": "while True: print('y' * 100)",
        "limits": {"output_bytes": 1000}})json"));
  EXPECT_EQ(flood.at("ending").get_string(), "output_overflow");
  EXPECT_LE(flood.at("stdout").get_string().size(), 1000u);
  const value slow =
      Json(Ask("POST", session + "/cells", R"({"code": "while True: pass", "limits": {"wall_s": 0.5}})"));
  EXPECT_EQ(slow.at("error").at("name").get_string(), "KeyboardInterrupt");
  const auto stream = Begin("POST", session + "/cells", R"({"code": "print('s')\nx", "stream": true})");
  EXPECT_THAT(stream->Bytes(), HasSubstr(R"(data: {"stdout":"s\n"})"));
  EXPECT_THAT(stream->Bytes(), HasSubstr(R"(data: {"result":{"text":"20","is_main_result":true}})"));
  EXPECT_EQ(Ask("POST", session + "/restart", "").status, 200);
  value after;
  for (int tries = 0; tries < 50 && (after.is_null() || after.at("ending").get_string() == "died"); ++tries)
    after = Json(Ask("POST", session + "/cells", R"({"code": "x"})"));
  EXPECT_EQ(after.at("error").at("name").get_string(), "NameError");
}

TEST_F(OwnApiTest, AnInterruptStopsTheCell) {
  const std::string session = Open();
  const auto call = Begin("POST", session + "/cells",
                          R"({"code": "print('on')\nwhile True: pass", "stream": true, "limits": {"wall_s": 100}})");
  EXPECT_TRUE(call->Await([&] { return call->so_far().find("on") != std::string::npos; }));
  EXPECT_EQ(Ask("POST", session + "/interrupt", "").status, 200);
  EXPECT_THAT(call->Bytes(), HasSubstr("KeyboardInterrupt"));
}

TEST_F(OwnApiTest, SessionsEndByTimeAndByDisuse) {
  const std::string idle = Open(R"({"limits": {"idle_s": 0.05}})");
  const std::string brief = Open(R"({"limits": {"lifetime_s": 0.05}})");
  const std::string other = Open();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  service_->RemoveEnded();
  EXPECT_EQ(Ask("GET", idle, "").status, 404);
  EXPECT_EQ(Ask("GET", brief, "").status, 404);
  EXPECT_EQ(Ask("GET", other, "").status, 200);
}

TEST_F(OwnApiTest, SessionsShareABoundOfMemory) {
  ServiceOptions options;
  options.store.memory_bytes = 300 << 20;
  options.store.session_bytes = 100 << 20;
  Make(options);
  const std::string first = Open(R"({"limits": {"memory_bytes": 250000000}})");
  const http::Reply rejected = Ask("POST", "/ingot/v1/sessions", "");
  EXPECT_EQ(rejected.status, 429);
  EXPECT_THAT(rejected.body, HasSubstr("250000000 of 314572800 bytes"));
  EXPECT_EQ(Ask("DELETE", first, "").status, 200);
  Open();
}

TEST_F(OwnApiTest, BadRequestsAreNamed) {
  EXPECT_EQ(Ask("POST", "/ingot/v1/execute", "{}", {{"Authorization", "Bearer another key"}}).status, 401);
  EXPECT_EQ(Ask("POST", "/ingot/v1/execute", "{}", {}).status, 401);
  EXPECT_EQ(Ask("GET", "/ingot/v1/none", "").status, 404);
  EXPECT_EQ(Ask("GET", "/health", "", {}).status, 200);
  const std::string session = Open();
  for (const auto& [target, body, message] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {"/ingot/v1/execute", "{", "JSON"},
           {"/ingot/v1/execute", "[]", "a JSON object"},
           {"/ingot/v1/execute", "{}", "'language' and 'code', or 'command'"},
           {"/ingot/v1/execute", R"({"language": "cobol", "code": "x"})", "python or shell"},
           {"/ingot/v1/execute", R"({"command": []})", "'command'"},
           {"/ingot/v1/execute", R"({"command": ["true"], "cases": []})", "'cases'"},
           {"/ingot/v1/execute", R"({"command": ["true"], "limits": {"wall_s": -1}})", "limits.wall_s"},
           {"/ingot/v1/execute", R"({"command": ["true"], "files": {"../x": "y"}})", "files"},
           {"/ingot/v1/execute", R"({"command": ["true"], "image": "tarball"})", "oci-archive:FILE"},
           {"/ingot/v1/execute", R"({"command": ["true"], "image": "folder:/root"})", "folder on this machine"},
           {"/ingot/v1/sessions", R"({"image": "dockerfile:/root"})", "folder on this machine"},
           {"/ingot/v1/sessions", R"({"image": "oci-archive:/etc/passwd"})", "is not in a folder"},
           {"/ingot/v1/sessions", R"({"image": "oci-archive:/etc/none"})", "is not in a folder"},
           {"/ingot/v1/execute", R"({"command": ["true"], "image": "oci:/root"})", "is not in a folder"},
           {"/ingot/v1/sessions", R"({"limits": {"cpus": "many"}})", "limits.cpus"},
           {session + "/execute", R"({"command": ["true"], "stream": 1})", "'stream'"},
           {session + "/execute", R"({"command": ["true"], "stream": true, "cases": []})", "'cases'"},
           {"/ingot/v1/execute", R"({"command": ["true"], "case": ["1"]})", "no 'case': the nearest is 'cases'"},
           {"/ingot/v1/execute", R"({"command": ["true"], "cases": "1"})", R"('cases' is the text \"1\")"},
           {"/ingot/v1/execute", R"({"command": ["true"], "cases": ["1", 5]})", "'cases[1]' is 5"},
           {"/ingot/v1/execute", R"({"command": ["true"], "cases": [null]})", "'cases[0]' is null"},
           {"/ingot/v1/execute", R"({"command": ["true"], "cases": [{"stdin": 5}]})", "cases[0]: 'stdin' is 5"},
           {"/ingot/v1/execute", R"({"command": ["true"], "cases": [{"in": "5"}]})", "cases[0] has no 'in'"},
           {"/ingot/v1/execute", R"({"command": ["true", 1]})", "'command[1]' is 1: it must be a string"},
           {"/ingot/v1/execute", R"({"command": ["true"], "code": "x"})", "not both"},
           {"/ingot/v1/execute", R"({"command": ["true"], "limits": 5})", "'limits' is 5: it must be an object"},
           {"/ingot/v1/execute", R"({"command": ["true"], "limits": {"wall": 1}})", "the nearest is 'limits.wall_s'"},
           {"/ingot/v1/execute", R"({"command": ["true"], "wall_s": 1})", "the nearest is 'limits.wall_s'"},
           {"/ingot/v1/execute", R"({"command": ["true"], "limits": {"wall_s": "1"}})", "is the text"},
           {"/ingot/v1/execute", R"({"command": ["true"], "limits": {"memory_bytes": 1000}})", "from 16777216"},
           {"/ingot/v1/execute", R"({"command": ["true"], "limits": {"processes": 2.5}})", "a whole number"},
           {"/ingot/v1/execute", R"({"command": ["true"], "limits": {"processes": 100000}})", "from 8 to 1024"},
           {"/ingot/v1/execute", R"({"command": ["true"], "stream": true})", "no 'stream'"},
           {"/ingot/v1/sessions", R"({"limits": {"memory_bytes": 1000}})", "from 16777216"},
           {"/ingot/v1/sessions", R"({"limits": {"processes": 100000}})", "from 8 to 1024"},
           {"/ingot/v1/sessions", R"({"limits": {"idle": 1}})", "the nearest is 'limits.idle_s'"},
           {"/ingot/v1/sessions", R"({"enw": {}})", "the nearest is 'env'"},
           {session + "/execute", R"({"command": ["true"], "limits": {"cpus": 1}})", "no 'limits.cpus'"},
           {session + "/execute", R"({"command": ["true"], "image": "sha256:00"})", "no 'image'"},
           {session + "/cells", R"({"code": "1", "limits": {"cpu_s": 1}})", "no 'limits.cpu_s'"},
           {session + "/cells", R"({})", "'code'"},
           {session + "/cells", R"([])", "a JSON object"}}) {
    const http::Reply reply = Ask("POST", target, body);
    EXPECT_EQ(reply.status, 400) << body << reply.body;
    EXPECT_THAT(reply.body, HasSubstr(message)) << body;
  }
}

}  // namespace
}  // namespace ingot::execution
