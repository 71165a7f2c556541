// The service that executes code: requests through its handler, in rooms of the test's own uid.
#include "app/execution_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "sandbox/test_room.h"

namespace ingot::app {
namespace {

using base::json::value;
using testing::HasSubstr;

class ExecutionTest : public testing::Test {
 protected:
  ExecutionTest() {
    ExecutionOptions options;
    options.key = "a key of the service";
    options.sessions = 1;
    options.images = folder_.path() + "/images";
    service_ = std::make_unique<ExecutionService>(sandbox::SharedUidSubstrate(folder_.path() + "/work"), options);
  }

  // The reply to one request, waited for as a server does.
  http::Reply Ask(const std::string& method, const std::string& target, const std::string& body,
                  const std::string& key = "a key of the service") {
    http::Opening opening =
        service_->Head({.method = method, .target = target, .fields = {{"Authorization", "Bearer " + key}}});
    if (opening.exchange == nullptr) return opening.refusal;
    std::mutex mu;
    std::condition_variable woken;
    bool ready = false;
    opening.exchange->Body(body, [&] {
      const std::lock_guard lock(mu);
      ready = true;
      woken.notify_all();
    });
    std::unique_lock lock(mu);
    woken.wait(lock, [&] { return ready; });
    return *opening.exchange->Send().reply;
  }
  value Json(const http::Reply& reply) { return base::ParseJson(reply.body).value(); }

  const sandbox::TestFolder folder_;
  std::unique_ptr<ExecutionService> service_;
};

TEST_F(ExecutionTest, CasesRunInOneRoomAndEachHasItsOutcome) {
  const http::Reply reply = Ask("POST", "/ingot/v1/execute", R"json({"language": "python", "files": {"data/n": "20"},
      "code": "import sys\nn = int(open('data/n').read())\nprint(n + int(input()))",
      "cases": [{"stdin": "1\n"}, {"stdin": "22\n"}, {"stdin": "x\n"}]})json");
  ASSERT_EQ(reply.status, 200) << reply.body;
  const auto cases = Json(reply).at("cases").get_array();
  ASSERT_EQ(cases.size(), 3u);
  EXPECT_EQ(cases[0].at("stdout").get_string(), "21\n");
  EXPECT_EQ(cases[1].at("stdout").get_string(), "42\n");
  EXPECT_EQ(cases[2].at("exit_code").get_int64(), 1);
  EXPECT_THAT(std::string(cases[2].at("stderr").get_string()), HasSubstr("ValueError"));
}

TEST_F(ExecutionTest, LimitsOfARequestHold) {
  const auto ending = [&](const std::string& body) {
    const value answer = Json(Ask("POST", "/ingot/v1/execute", body));
    return std::string(answer.at("cases").get_array()[0].at("ending").get_string());
  };
  EXPECT_EQ(ending(R"({"command": ["sleep", "100"], "limits": {"wall_s": 0.2}})"), "timeout");
  EXPECT_EQ(ending(R"({"command": ["cat", "/dev/zero"], "limits": {"output_bytes": 10}})"), "output_overflow");
}

TEST_F(ExecutionTest, ASessionKeepsItsFiles) {
  const std::string session =
      "/ingot/v1/sessions/" + std::string(Json(Ask("POST", "/ingot/v1/sessions", "")).at("id").get_string());
  EXPECT_EQ(Ask("POST", session + "/execute", R"({"language": "shell", "code": "echo one > f"})").status, 200);
  const http::Reply second = Ask("POST", session + "/execute", R"({"command": ["cat", "f"]})");
  EXPECT_EQ(Json(second).at("cases").get_array()[0].at("stdout").get_string(), "one\n");
  EXPECT_EQ(Ask("GET", session + "/files/f", "").body, "one\n");
  EXPECT_EQ(Ask("GET", session + "/files/none", "").status, 404);
  EXPECT_EQ(Ask("POST", "/ingot/v1/sessions", "").status, 429) << "one is the most here";
  EXPECT_EQ(Ask("DELETE", session, "").status, 200);
  EXPECT_EQ(Ask("POST", session + "/execute", R"({"command": ["true"]})").status, 404);
}

TEST_F(ExecutionTest, BadRequestsAreNamed) {
  EXPECT_EQ(Ask("POST", "/ingot/v1/execute", "{}", "another key").status, 401);
  for (const auto& [body, message] : std::vector<std::pair<std::string, std::string>>{
           {"{", "JSON"},
           {"[]", "a JSON object"},
           {"{}", "'language' and 'code', or 'command'"},
           {R"({"language": "cobol", "code": "x"})", "python or shell"},
           {R"({"command": []})", "'command'"},
           {R"({"command": ["true"], "cases": []})", "'cases'"},
           {R"({"command": ["true"], "limits": {"wall_s": -1}})", "limits.wall_s"},
           {R"({"command": ["true"], "files": {"../x": "y"}})", "files"},
           {R"({"command": ["true"], "image": "tarball"})", "oci-archive:FILE"}}) {
    const http::Reply reply = Ask("POST", "/ingot/v1/execute", body);
    EXPECT_EQ(reply.status, 400) << body << reply.body;
    EXPECT_THAT(reply.body, HasSubstr(message)) << body;
  }
}

}  // namespace
}  // namespace ingot::app
