// The page of a run over real sockets: who may read it, and what it answers.
#include "view/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "http/wire.h"
#include "view/bundle.h"
#include "view/make_run.h"

namespace ingot::view::page_test {
namespace {

using ::testing::HasSubstr;

constexpr char kKey[] = "an-admin-key-of-some-length";

class PageTest : public ::testing::Test {
 protected:
  PageTest() {
    std::ofstream(run_.folder() + "/metrics.jsonl")
        << "{\"step\": 0, \"time\": 5, \"reward/mean\": 0.5, \"perf/step_seconds\": 2}\n{\"st";
    std::ofstream(run_.folder() + "/config.yaml") << "run: {name: small}\n";
    http::Options options;
    options.port = 0;
    page_ = Page::Start(options, kKey, run_.Source()).value();
  }
  http::Response Ask(const std::string& target, const std::string& key = kKey, const std::string& method = "GET") {
    http::Wire wire(page_->port());
    wire.Send(http::Request(method, target, "", key));
    return http::Read(wire, method == "HEAD");
  }
  http::Response AskWithCookie(const std::string& target, const std::string& cookie) {
    http::Wire wire(page_->port());
    wire.Send("GET " + target + " HTTP/1.1\r\nHost: localhost\r\nCookie: other=1; " + cookie + "\r\n\r\n");
    return http::Read(wire);
  }

  testing::SmallRun run_;
  std::unique_ptr<Page> page_;
};

const char* const kTargets[] = {"/",
                                "/app.js",
                                "/style.css",
                                "/api/run",
                                "/api/curves?names=reward/mean",
                                "/api/window",
                                "/api/time",
                                "/api/config",
                                "/api/step?step=0",
                                "/api/episodes",
                                "/api/group?group=0",
                                "/api/episode?id=g0s0",
                                "/api/tokens?id=g0s0&call=0",
                                "/nothing"};

TEST_F(PageTest, NothingIsReadWithoutAKey) {
  for (const char* target : kTargets) {
    for (const char* key : {"", "an-agents-key-of-some-length", "an-admin-key-of-some-lengtH"}) {
      const http::Response response = Ask(target, key);
      EXPECT_EQ(response.status, 401) << target;
      EXPECT_EQ(response.body.find("small"), std::string::npos) << target;
    }
  }
  EXPECT_EQ(Ask("/?token=", "").status, 401);
  EXPECT_EQ(Ask("/api/run", "", "POST").status, 401);
}

TEST_F(PageTest, ALinkOpensThePageOnceAndItsCookieStays) {
  const std::string link = page_->NewLink();
  const std::string target = link.substr(link.find("/?"));
  const http::Response opened = Ask(target, "");
  EXPECT_EQ(opened.status, 303);
  EXPECT_EQ(opened.headers.at("location"), "/");
  const std::string set = opened.headers.at("set-cookie");
  EXPECT_THAT(set, HasSubstr("; HttpOnly; SameSite=Lax"));
  const std::string cookie = set.substr(0, set.find(';'));
  EXPECT_EQ(AskWithCookie("/api/run", cookie).status, 200);
  EXPECT_EQ(AskWithCookie("/api/run", cookie + "0").status, 401);
  EXPECT_EQ(Ask(target, "").status, 401);  // the link is void
}

TEST_F(PageTest, TheKeyOpensEveryAnswer) {
  for (const char* target : kTargets) {
    const int wanted =
        std::string(target) == "/nothing" || (Bundle().empty() && std::string(target).ends_with("s")) ? 404 : 200;
    const http::Response response = Ask(target);
    if (!Bundle().empty() || std::string(target).starts_with("/api")) {
      EXPECT_EQ(response.status, wanted) << response.body;
    }
    EXPECT_THAT(response.headers.at("content-security-policy"), HasSubstr("script-src 'self'"));
    EXPECT_EQ(response.headers.at("x-content-type-options"), "nosniff");
  }
  EXPECT_THAT(Ask("/api/run").body, HasSubstr("\"name\":\"small\""));
  EXPECT_THAT(Ask("/api/curves?names=reward/mean").body, HasSubstr("\"mean\":[0.5]"));
  EXPECT_THAT(Ask("/api/step?step=0").body, HasSubstr("\"returns\":[0.0,1.0]"));
}

TEST_F(PageTest, AFaultIsOneClearError) {
  EXPECT_EQ(Ask("/api/step?step=9").status, 404);
  EXPECT_EQ(Ask("/api/step").status, 400);
  EXPECT_EQ(Ask("/api/episode?id=gone").status, 404);
  EXPECT_EQ(Ask("/api/tokens?id=g0s0&call=7").status, 404);
  EXPECT_EQ(Ask("/api/nothing").status, 404);
  EXPECT_THAT(Ask("/api/episodes?after=x").body, HasSubstr("not a cursor"));
  for (const char* malformed :
       {"/api/episodes?reward_min=abc", "/api/episodes?state=ended", "/api/episodes?limit=all", "/api/step?step=one",
        "/api/group?group=0x1", "/api/group?group=0&kind=test", "/api/curves?points=many", "/api/time?steps=-",
        "/api/tokens?id=g0s0&call=last", "/api/tokens?id=g0s0", "/api/episodes?rewardmin=1", "/api/window?x=1"}) {
    const http::Response rejected = Ask(malformed);
    EXPECT_EQ(rejected.status, 400) << malformed;
    EXPECT_THAT(rejected.body, HasSubstr("{\"error\":\"")) << malformed;
  }
  EXPECT_THAT(Ask("/api/episodes?reward_min=abc").body, HasSubstr("reward_min: 'abc' is not a number"));
  EXPECT_THAT(Ask("/api/episodes?rewardmin=1").body, HasSubstr("'rewardmin' is not one of: kind, "));
  EXPECT_EQ(Ask("/api/run", kKey, "POST").headers.at("allow"), "GET, HEAD");
  EXPECT_EQ(Ask("/api/run", kKey, "HEAD").status, 200);
}

// The page of a run with an admin key. Records the ends that are requested.
class EndingPageTest : public PageTest {
 protected:
  EndingPageTest() {
    RunSource source = run_.Source();
    source.live = [] {
      LiveState state;
      state.gateways.set_uncalled_episodes(4);
      state.gateways.set_oldest_uncalled_ms(161'000);
      v1::UncalledEpisode& one = *state.gateways.add_uncalled();
      one.set_episode_id("e1");
      one.set_task_id("t\x1b[1m");
      return state;
    };
    source.end_uncalled = [this](const std::string& id, const std::string& key) -> absl::StatusOr<int64_t> {
      asked_.push_back(id);
      if (key != kKey) return absl::PermissionDeniedError("wrong key");
      if (id == "gone") return absl::NotFoundError("there is no open episode 'gone'");
      if (id == "called") return absl::FailedPreconditionError("it has made a call");
      return id.empty() ? 4 : 1;
    };
    http::Options options;
    options.port = 0;
    page_ = Page::Start(options, kKey, source).value();
    const std::string link = page_->NewLink();
    const std::string set = Ask(link.substr(link.find("/?")), "").headers.at("set-cookie");
    cookie_ = set.substr(0, set.find(';'));
  }
  // Sends the request of a browser, with the page's cookie and the key that the user entered.
  http::Response End(const std::string& query, const std::string& key, const std::string& method = "POST") {
    http::Wire wire(page_->port());
    wire.Send(method + " /api/end_uncalled" + query + " HTTP/1.1\r\nHost: localhost\r\nCookie: " + cookie_ +
              (key.empty() ? "" : "\r\nAuthorization: Bearer " + key) + "\r\nContent-Length: 0\r\n\r\n");
    return http::Read(wire);
  }

  std::vector<std::string> asked_;
  std::string cookie_;
};

TEST_F(EndingPageTest, ListsEpisodesWithoutACallAndEndsThemWithTheKey) {
  const std::string run = Ask("/api/run").body;
  EXPECT_THAT(run, HasSubstr("\"uncalled\":{\"count\":4,\"oldest_s\":161.0,\"episodes\":[{\"id\":\"e1\""));
  EXPECT_THAT(run, HasSubstr("\"can_end\":true"));
  EXPECT_EQ(run.find('\x1b'), std::string::npos);
  EXPECT_EQ(End("?id=e1", kKey).body, "{\"ended\":1}");
  EXPECT_EQ(End("?all=1", kKey).body, "{\"ended\":4}");
  EXPECT_EQ(asked_, (std::vector<std::string>{"e1", ""}));
}

TEST_F(EndingPageTest, EndsNothingWithoutTheKey) {
  EXPECT_EQ(End("?id=e1", "").status, 403) << "the page's cookie only reads";
  EXPECT_TRUE(asked_.empty());
  const http::Response wrong = End("?id=e1", "another-key-of-some-length");
  EXPECT_EQ(wrong.status, 403);
  EXPECT_EQ(wrong.body, "{\"error\":\"wrong key\"}");
  EXPECT_EQ(End("?id=e1", kKey, "GET").status, 404);
  EXPECT_EQ(End("?id=e1", kKey, "DELETE").status, 405);
  cookie_ = "x=1";
  EXPECT_EQ(End("?id=e1", "another-key-of-some-length").status, 401);
}

TEST_F(EndingPageTest, AMalformedEndIsOneClearError) {
  EXPECT_EQ(End("?id=gone", kKey).status, 404);
  EXPECT_EQ(End("?id=called", kKey).status, 409);
  asked_.clear();
  for (const char* malformed : {"", "?", "?id=", "?all=", "?all=yes", "?all=1&id=e1", "?id=e1&all=0", "?episode=e1"}) {
    EXPECT_EQ(End(malformed, kKey).status, 400) << malformed;
  }
  EXPECT_TRUE(asked_.empty());
  EXPECT_EQ(End("?id=" + std::string(100'000, 'x'), kKey).status / 100, 4);
}

TEST_F(PageTest, EndsNoEpisodeOfARunWithoutAKey) {
  EXPECT_THAT(Ask("/api/run").body, HasSubstr("\"can_end\":false"));
  const http::Response response = Ask("/api/end_uncalled?all=1", kKey, "POST");
  EXPECT_EQ(response.status, 404);
  EXPECT_THAT(response.body, HasSubstr("`ingot episodes end`"));
}

TEST_F(PageTest, ManyTabsAtOnceAllGetTheirAnswer) {
  std::vector<std::thread> tabs;
  std::atomic<int> answered = 0;
  for (int tab = 0; tab < 10; ++tab) {
    tabs.emplace_back([&] {
      for (const char* target : {"/api/run", "/api/window", "/api/time", "/api/curves?names=reward/mean"}) {
        answered += Ask(target).status == 200 ? 1 : 0;
      }
    });
  }
  for (std::thread& tab : tabs) tab.join();
  EXPECT_EQ(answered, 40);
}

}  // namespace
}  // namespace ingot::view::page_test
