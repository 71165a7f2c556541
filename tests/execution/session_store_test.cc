// How sessions of the store end: by disuse, and while a request still holds them.
#include "execution/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "execution/passing_sandbox.h"
#include "execution/test_client.h"
#include "sandbox/test_sandbox.h"

namespace ingot::execution {
namespace {

// A sandbox whose end waits for a gate.
class SlowSandbox final : public PassingSandbox {
 public:
  SlowSandbox(std::unique_ptr<sandbox::Sandbox> inner, std::shared_future<void> gate)
      : PassingSandbox(std::move(inner)), gate_(std::move(gate)) {}
  ~SlowSandbox() override { gate_.wait(); }

 private:
  const std::shared_future<void> gate_;
};

class SlowSubstrate final : public sandbox::Substrate {
 public:
  SlowSubstrate(std::unique_ptr<sandbox::Substrate> inner, std::shared_future<void> gate)
      : inner_(std::move(inner)), gate_(std::move(gate)) {}
  const sandbox::ProbeResult& probe_result() const override { return inner_->probe_result(); }
  const sandbox::SubstrateOptions& options() const override { return inner_->options(); }
  absl::StatusOr<std::unique_ptr<sandbox::Sandbox>> Prepare(const sandbox::SandboxOptions& options) override {
    INGOT_ASSIGN_OR_RETURN(std::unique_ptr<sandbox::Sandbox> sandbox, inner_->Prepare(options));
    return std::make_unique<SlowSandbox>(std::move(sandbox), gate_);
  }

 private:
  const std::unique_ptr<sandbox::Substrate> inner_;
  const std::shared_future<void> gate_;
};

using SessionEndTest = ServiceTest;
using base::json::value;

// One thread of the HTTP server serves all sockets, and drops streams that ended.
TEST_F(SessionEndTest, AStreamOfAnEndedSessionIsDroppedWithoutAWaitForTheSandbox) {
  std::promise<void> gate;
  MakeOn(std::make_unique<SlowSubstrate>(sandbox::SharedUidSubstrate(folder_.path() + "/work"),
                                         gate.get_future().share()));
  const http::Reply opened = Ask("POST", "/ingot/v1/sessions", "");
  EXPECT_EQ(opened.status, 200) << opened.body;
  const std::string session = "/ingot/v1/sessions/" + std::string(Json(opened).at("id").get_string());
  auto stream = Begin("POST", session + "/execute", R"({"command": ["sleep", "1000"], "stream": true})");
  EXPECT_TRUE(stream->Await([&] { return !stream->content_type().empty(); }));
  const auto ended = Begin("DELETE", session, "");
  EXPECT_THAT(stream->Bytes(), testing::HasSubstr(R"("ending":"cancelled")"));
  const auto dropped = std::async(std::launch::async, [&stream] { stream.reset(); });
  EXPECT_EQ(dropped.wait_for(std::chrono::seconds(20)), std::future_status::ready) << "it waits for the sandbox's end";
  gate.set_value();
  EXPECT_EQ(ended->Reply().status, 200);
}

TEST_F(SessionEndTest, SandboxesThatEndSlowlyDelayNobodyElse) {
  std::promise<void> gate;
  const auto opened = gate.get_future().share();
  ServiceOptions options;
  options.store.sessions = 7;
  MakeOn(std::make_unique<SlowSubstrate>(sandbox::SharedUidSubstrate(folder_.path() + "/work"), opened), options);
  std::vector<std::string> sessions;
  for (int i = 0; i < 6; ++i) {
    const http::Reply reply = Ask("POST", "/ingot/v1/sessions", "");
    EXPECT_EQ(reply.status, 200) << reply.body;
    sessions.push_back("/ingot/v1/sessions/" + std::string(Json(reply).at("id").get_string()));
  }
  std::vector<std::unique_ptr<Call>> ending;
  for (int i = 1; i < 6; ++i) ending.push_back(Begin("DELETE", sessions[static_cast<size_t>(i)], ""));
  EXPECT_EQ(Ask("POST", sessions[0] + "/execute", R"({"command": ["true"]})").status, 200);
  EXPECT_EQ(Ask("GET", sessions[0], "").status, 200);
  for (int i = 1; i < 6; ++i) EXPECT_EQ(Ask("GET", sessions[static_cast<size_t>(i)], "").status, 404);
  EXPECT_EQ(Ask("POST", "/ingot/v1/sessions", "").status, 200) << "the seventh";
  EXPECT_EQ(Ask("POST", "/ingot/v1/sessions", "").status, 429) << "sandboxes count until they are gone";
  gate.set_value();
  for (const auto& call : ending) EXPECT_EQ(call->Reply().status, 200);
  EXPECT_EQ(Ask("POST", "/ingot/v1/sessions", "").status, 200);
}

TEST_F(SessionEndTest, PastItsEndNobodyFindsIt) {
  base::ManualClock clock;
  ServiceOptions options;
  options.store.clock = &clock;
  Make(options);
  const value sandbox = Json(Ask("POST", "/sandboxes", R"({"timeout": 60})"));
  const std::string id(sandbox.at("sandboxID").get_string());
  const http::Fields shown = {{"E2b-Sandbox-Id", id},
                              {"X-Access-Token", std::string(sandbox.at("envdAccessToken").get_string())}};
  const std::string session =
      "/ingot/v1/sessions/" + std::string(Json(Ask("POST", "/ingot/v1/sessions", "")).at("id").get_string());
  EXPECT_EQ(Ask("GET", "/health", "", shown).status, 204);
  clock.Advance(std::chrono::seconds(60));
  EXPECT_EQ(Ask("GET", "/health", "", shown).status, 502);
  EXPECT_EQ(Ask("GET", "/sandboxes/" + id, "").status, 404);
  EXPECT_EQ(Ask("POST", "/sandboxes/" + id + "/timeout", R"({"timeout": 600})").status, 404)
      << "it does not live again";
  EXPECT_EQ(Ask("DELETE", "/sandboxes/" + id, "").status, 404);
  EXPECT_EQ(Json(Ask("GET", "/v2/sandboxes", "")).get_array().size(), 1u);
  EXPECT_EQ(Ask("GET", session, "").status, 200);
  clock.Advance(std::chrono::seconds(599));
  EXPECT_EQ(Ask("GET", session, "").status, 200);
  clock.Advance(std::chrono::seconds(601));
  EXPECT_EQ(Ask("GET", session, "").status, 404) << "nobody used it for 600 s";
}

TEST(SessionStoreTest, TheEndOfARequestCountsAsAUse) {
  const sandbox::TestFolder folder;
  const auto substrate = sandbox::SharedUidSubstrate(folder.path() + "/work");
  ASSERT_NE(substrate, nullptr);
  base::ManualClock clock;
  const std::chrono::milliseconds idle(400), longer(500);
  SessionStore store(*substrate, {.idle = idle, .clock = &clock});
  const sandbox::Cancellation nobody;
  auto opened = store.Open({}, nobody);
  ASSERT_TRUE(opened.ok()) << opened.status();
  std::shared_ptr<HeldSession> request = store.Find((*opened)->id);
  opened->reset();
  clock.Advance(longer);
  store.RemoveEnded();
  request.reset();
  store.RemoveEnded();
  EXPECT_EQ(store.List().size(), 1u) << "its last use was the request's end";
  clock.Advance(longer);
  store.RemoveEnded();
  EXPECT_TRUE(store.List().empty());
}

}  // namespace
}  // namespace ingot::execution
