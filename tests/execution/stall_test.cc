// A session whose guest agent does not answer, and requests that are large, delay nobody else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "execution/e2b/connect.h"
#include "execution/e2b/e2b_files.h"
#include "execution/fields.h"
#include "execution/lane.h"
#include "execution/test_client.h"

namespace ingot::execution {
namespace {

using base::json::object;
using base::json::value;
using testing::HasSubstr;

// Of /proc/PID/stat: the name, the state and the parent.
struct Stat {
  std::string name;
  char state = '?';
  int parent = 0;
};
Stat StatOf(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  const std::string line{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const size_t open = line.find('('), close = line.rfind(')');
  if (close == std::string::npos || close + 4 > line.size()) return {};
  return {line.substr(open + 1, close - open - 1), line[close + 2], std::atoi(line.c_str() + close + 4)};
}

// Whether a guest agent of this process's sandboxes is stopped.
bool HasStoppedGuestAgent() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    Stat stat = StatOf(name);
    if (stat.name != "guest-agent" || stat.state != 'T') continue;
    while (stat.parent > 1 && stat.parent != getpid()) stat = StatOf(std::to_string(stat.parent));
    if (stat.parent == getpid()) return true;
  }
  return false;
}

class StallTest : public ServiceTest {
 protected:
  // A sandbox of both APIs.
  struct E2bSandbox {
    std::string id, own;
    http::Fields shown;
  };
  E2bSandbox Open() {
    const value opened = Json(Ask("POST", "/sandboxes", "{}"));
    E2bSandbox sandbox;
    sandbox.id = std::string(opened.at("sandboxID").get_string());
    sandbox.own = "/ingot/v1/sessions/" + sandbox.id;
    sandbox.shown = {{"E2b-Sandbox-Id", sandbox.id},
                     {"X-Access-Token", std::string(opened.at("envdAccessToken").get_string())}};
    return sandbox;
  }
  http::Fields With(const E2bSandbox& sandbox, const std::string& type) {
    http::Fields fields = sandbox.shown;
    fields.emplace_back("Content-Type", type);
    return fields;
  }
  // A program of the sandbox stops its guest agent. Its stream is one of the requests that wait from then on.
  std::vector<std::unique_ptr<Call>> Stop(const E2bSandbox& sandbox) {
    const object limits{{"wall_s", 3600}};
    const std::string code = "until [ -e go ]; do sleep 0.01; done; kill -STOP $PPID; sleep 1000";
    std::vector<std::unique_ptr<Call>> calls;
    calls.push_back(Begin("POST", sandbox.own + "/execute",
                          base::PrintJson({{"command", {"sh", "-c", code}}, {"stream", true}, {"limits", limits}})));
    EXPECT_TRUE(calls[0]->Await([&] { return !calls[0]->content_type().empty(); })) << "it runs";
    calls.push_back(Begin("PUT", sandbox.own + "/files/go", ""));
    EXPECT_TRUE(Eventually(HasStoppedGuestAgent));
    return calls;
  }
};

TEST_F(StallTest, AStoppedGuestAgentStallsNoOtherSession) {
  ServiceOptions options;
  options.store.timeout = std::chrono::minutes(10);
  Make(options);
  const E2bSandbox stopped = Open(), other = Open();
  std::vector<std::unique_ptr<Call>> stalled = Stop(stopped);
  for (int i = 0; i < 5; ++i) {  // of each kind more than there are threads of a kind
    stalled.push_back(Begin("PUT", stopped.own + "/files/a", "a"));
    stalled.push_back(Begin("GET", stopped.own + "/files/a", ""));
    stalled.push_back(Begin("POST", stopped.own + "/cells", R"({"code": "1"})"));
    stalled.push_back(Begin("POST", stopped.own + "/execute", R"({"command": ["true"], "limits": {"wall_s": 3600}})"));
    stalled.push_back(Begin("POST", "/execute", R"({"code": "1"})", With(stopped, "application/json")));
    stalled.push_back(Begin("POST", "/files?path=a", "a", With(stopped, "application/octet-stream")));
    stalled.push_back(
        Begin("POST", "/filesystem.Filesystem/Stat", R"({"path": "a"})", With(stopped, "application/json")));
    stalled.push_back(Begin("POST", "/process.Process/Start", Envelope(object{{"process", object{{"cmd", "true"}}}}),
                            With(stopped, "application/connect+json")));
  }
  EXPECT_EQ(Json(Ask("POST", other.own + "/cells", R"({"code": "6 * 7"})")).at("count").get_int64(), 1);
  EXPECT_EQ(Ask("PUT", other.own + "/files/b", "b").status, 200);
  EXPECT_EQ(Begin("GET", other.own + "/files/b", "")->Bytes(), "b");
  EXPECT_EQ(Ask("POST", other.own + "/execute", R"({"command": ["true"]})").status, 200);
  EXPECT_EQ(Ask("POST", "/ingot/v1/execute", R"({"command": ["true"]})").status, 200);
  EXPECT_EQ(Ask("POST", "/files?path=c", "c", With(other, "application/octet-stream")).status, 200);
  EXPECT_EQ(Json(Ask("GET", "/ingot/v1/sessions", "")).at("sessions").get_array().size(), 2u);
  EXPECT_EQ(Ask("GET", stopped.own, "").status, 200) << "what needs no guest agent";
  EXPECT_EQ(Ask("GET", "/health", "", stopped.shown).status, 204);
  EXPECT_EQ(Ask("POST", stopped.own + "/interrupt", "").status, 200);
  const E2bSandbox third = Open();
  EXPECT_EQ(Ask("DELETE", third.own, "").status, 200);
  EXPECT_EQ(Ask("DELETE", stopped.own, "").status, 200);
  for (const auto& call : stalled) EXPECT_NE(call->Bytes(), "") << "its end answers the requests that waited";
}

TEST_F(StallTest, AnOrderThatAStoppedGuestAgentDoesNotAnswerFails) {
  ServiceOptions options;
  options.store.timeout = std::chrono::seconds(3);
  Make(options);
  const E2bSandbox sandbox = Open();
  const auto program = Stop(sandbox);
  std::vector<std::unique_ptr<Call>> calls;
  calls.push_back(Begin("PUT", sandbox.own + "/files/a", "a"));
  calls.push_back(Begin("GET", sandbox.own + "/files/a", ""));
  calls.push_back(Begin("POST", sandbox.own + "/cells", R"({"code": "1"})"));
  calls.push_back(Begin("POST", sandbox.own + "/execute", R"({"command": ["true"]})"));
  for (const auto& call : calls) {
    EXPECT_EQ(call->Reply().status, 503);
    EXPECT_THAT(call->Reply().body, HasSubstr("does not respond"));
  }
}

TEST_F(StallTest, AFormOfTooManyPartsIsRejected) {
  const auto form = [](int parts) {
    std::string body;
    for (int i = 0; i < parts; ++i) {
      body +=
          "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f" + std::to_string(i) + "\"\r\n\r\nx\r\n";
    }
    return body + "--b--\r\n";
  };
  const std::string type = "multipart/form-data; boundary=b";
  EXPECT_EQ(ReadForm(type, form(kMaxParts))->size(), static_cast<size_t>(kMaxParts));
  EXPECT_THAT(std::string(ReadForm(type, form(kMaxParts + 1)).status().message()), HasSubstr("more than 4096 parts"));
  const E2bSandbox sandbox = Open();
  EXPECT_EQ(Ask("POST", "/files", form(100'000), With(sandbox, type)).status, 400);
  object files;
  for (size_t i = 0; i <= kMaxNames; ++i) files[std::to_string(i)] = "x";
  const http::Reply batch = Ask("POST", "/ingot/v1/execute",
                                base::PrintJson({{"command", base::json::array{"true"}}, {"files", std::move(files)}}));
  EXPECT_EQ(batch.status, 400);
  EXPECT_THAT(batch.body, HasSubstr("4096 at most"));
}

TEST(LaneTest, RunsSoManyAtATimeAndLetsSoManyWait) {
  std::mutex mu;
  std::condition_variable changed;
  int running = 0, done = 0;
  bool may_end = false;
  const auto task = [&] {
    std::unique_lock lock(mu);
    ++running;
    changed.notify_all();
    changed.wait(lock, [&] { return may_end; });
    ++done;
  };
  {
    Lane lane(2, 3);
    EXPECT_TRUE(lane.TryPost(task));
    EXPECT_TRUE(lane.TryPost(task));
    {
      std::unique_lock lock(mu);
      changed.wait(lock, [&] { return running == 2; });
    }
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(lane.TryPost(task));
    EXPECT_FALSE(lane.TryPost(task)) << "three wait";
    const std::lock_guard lock(mu);
    may_end = true;
    changed.notify_all();
  }
  EXPECT_EQ(done, 5) << "its end waits for them";
}

}  // namespace
}  // namespace ingot::execution
