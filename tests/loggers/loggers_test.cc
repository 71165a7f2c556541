// Loggers against servers that are faked here; tests/loggers/servers.py runs them against the real ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/json.h"
#include "loggers/follower.h"
#include "loggers/mlflow.h"
#include "loggers/otlp.h"
#include "loggers/trackio.h"
#include "view/make_run.h"

namespace ingot::loggers {
namespace {

using ::testing::HasSubstr;

struct Asked {
  std::string url, body, key;
};

// A server that answers what MLflow would, or fails while `down`.
struct FakeServer {
  std::vector<Asked> asked;
  bool down = false;
  bool experiment_exists = false;
  PostJson Post() {
    return
        [this](const std::string& url, const std::string& body, const std::string& key) -> absl::StatusOr<std::string> {
          if (down) return absl::UnavailableError("no server");
          asked.push_back({url, body, key});
          if (url.ends_with("experiments/create")) {
            if (experiment_exists) return absl::FailedPreconditionError("RESOURCE_ALREADY_EXISTS");
            return std::string(R"({"experiment_id":"7"})");
          }
          if (url.ends_with("experiments/search")) return std::string(R"({"experiments":[{"experiment_id":"8"}]})");
          if (url.ends_with("runs/create")) return std::string(R"({"run":{"info":{"run_id":"r1"}}})");
          return std::string("{}");
        };
  }
  int Count(const std::string& part) const {
    return static_cast<int>(std::count_if(asked.begin(), asked.end(),
                                          [&](const Asked& one) { return one.url.find(part) != std::string::npos; }));
  }
};

view::Row RowOf(int64_t step) {
  return {step, 1000.5 + static_cast<double>(step), {{"reward/mean@domain:x", 0.5}, {"perf/step_seconds", 1}}};
}

TEST(Mlflow, MakesItsRunOnceAndLogsByStep) {
  FakeServer server;
  Mlflow mlflow({"http://s", "lab", "secret"}, "run", "yaml", "", server.Post());
  const std::vector<view::Row> rows = {RowOf(0), RowOf(1)};
  ASSERT_TRUE(mlflow.Rows(rows).ok());
  ASSERT_TRUE(mlflow.Rows(rows).ok());
  ASSERT_TRUE(mlflow.End(true).ok());
  EXPECT_EQ(server.Count("runs/create"), 1);
  EXPECT_EQ(server.Count("log-batch"), 2);
  EXPECT_EQ(server.asked[0].url, "http://s/api/2.0/mlflow/experiments/create");
  EXPECT_EQ(server.asked[0].key, "secret");
  EXPECT_THAT(server.asked[2].body,
              HasSubstr(R"({"key":"reward/mean_domain:x","value":0.5,"timestamp":1000500,"step":0})"));
  EXPECT_THAT(server.asked.back().body, HasSubstr("FINISHED"));
}

TEST(Mlflow, GoesOnInTheRunOfAnEarlierStartAndFindsAnExperimentThatIsThere) {
  FakeServer server;
  Mlflow again({"http://s", "lab", ""}, "run", "", "r1", server.Post());
  ASSERT_TRUE(again.Rows(std::vector<view::Row>{RowOf(3)}).ok());
  EXPECT_EQ(server.Count("runs/create"), 0);
  server.experiment_exists = true;
  Mlflow fresh({"http://s", "lab", ""}, "run", "", "", server.Post());
  ASSERT_TRUE(fresh.Rows(std::vector<view::Row>{RowOf(3)}).ok());
  EXPECT_EQ(fresh.State(), "r1");
  EXPECT_THAT(server.asked[3].body, HasSubstr(R"("experiment_id":"8")"));
}

TEST(Trackio, SendsRowsInBulkEachWithItsOwnId) {
  FakeServer server;
  Trackio trackio({"http://s", "p", "w", ""}, "run", server.Post());
  ASSERT_TRUE(trackio.Rows(std::vector<view::Row>{RowOf(0), RowOf(1)}).ok());
  ASSERT_EQ(server.asked.size(), 1u);
  EXPECT_EQ(server.asked[0].url, "http://s/api/bulk_log?write_token=w");
  EXPECT_THAT(server.asked[0].body, HasSubstr(R"("log_id":"run-1-1001500")"));
}

TEST(Otlp, AnEpisodeIsATraceWithItsCallsAndItsGrading) {
  view::testing::SmallRun run;
  view::Journal journal;
  ASSERT_TRUE(journal.Refresh(run.pool()).ok());
  const v1::Group group = datapool::testing::GetGroup(run.pool(), 0).value();
  const base::json::array spans = SpansOf("r", group, *journal.Group(0));
  ASSERT_EQ(spans.size(), 6u);  // two episodes, each with a call and a grading
  EXPECT_EQ(spans[0].at("name"), "episode");
  EXPECT_EQ(spans[1].at("name"), "call");
  EXPECT_EQ(spans[1].at("traceId"), spans[0].at("traceId"));
  EXPECT_EQ(spans[1].at("parentSpanId"), spans[0].at("spanId"));
  EXPECT_EQ(spans[2].at("name"), "grading");
  EXPECT_NE(spans[3].at("traceId"), spans[0].at("traceId"));
  EXPECT_EQ(spans[0].at("traceId").as_string().size(), 32u);
  EXPECT_EQ(spans[0].at("spanId").as_string().size(), 16u);
  EXPECT_EQ(base::PrintJson(SpansOf("r", group, *journal.Group(0))), base::PrintJson(spans));  // sent twice = the same
}

TEST(Otlp, ASupervisedStepIsASpanAsLongAsItsPasses) {
  FakeServer server;
  Otlp otlp({"http://s", ""}, "run", server.Post());
  const std::vector<view::Row> rows = {
      {0, 1000.5, {{"sft/loss", 2}, {"sft/tokens_per_second", 8}, {"perf/pass_seconds", 0.25}}},
      {1, 1001.5, {{"eval/reward_mean", 1}}},
      {2, 1002.5, {{"dpo/tokens_per_second", 8}}}};  // skipped
  ASSERT_TRUE(otlp.Rows(rows).ok());
  ASSERT_EQ(server.Count("/v1/traces"), 1);
  const base::json::value sent = base::ParseJson(server.asked[0].body).value();
  const base::json::value& scope = sent.at("resourceSpans").as_array()[0].at("scopeSpans").as_array()[0];
  const base::json::array& spans = scope.at("spans").as_array();
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].at("startTimeUnixNano"), "1000250000000");
  EXPECT_EQ(spans[0].at("endTimeUnixNano"), "1000500000000");
  EXPECT_THAT(base::PrintJson(spans[0]), HasSubstr("sft/loss"));
  EXPECT_EQ(spans[1].at("startTimeUnixNano"), spans[1].at("endTimeUnixNano"));
}

TEST(Otlp, AGradingShowsWhatATermGaveToCallsToo) {
  view::testing::SmallRun run;
  view::Journal journal;
  ASSERT_TRUE(journal.Refresh(run.pool()).ok());
  v1::Group group = datapool::testing::GetGroup(run.pool(), 0).value();
  v1::TermValue& term = *group.mutable_episodes(0)->mutable_episode()->mutable_grade()->add_terms();
  term.set_term("malformed_call");
  (*term.mutable_calls())["one"] = -0.25;
  (*term.mutable_calls())["two"] = -0.5;
  const base::json::array spans = SpansOf("r", group, *journal.Group(0));
  const base::json::value& of_term = spans[2].at("attributes").as_array().at(0);
  EXPECT_EQ(of_term.at("key"), "ingot.reward.malformed_call");
  EXPECT_EQ(of_term.at("value").at("doubleValue").as_double(), -0.75);
}

TEST(Place, IsReadAsItWasPrinted) {
  const Place place = ReadPlace(PrintPlace({1.5, 7, {9, 11}, "s"})).value();
  EXPECT_EQ(place.row_time, 1.5);
  EXPECT_EQ(place.next_group, 7);
  EXPECT_EQ(place.ahead, (std::vector<int64_t>{9, 11}));
  EXPECT_EQ(place.state, "s");
  EXPECT_FALSE(ReadPlace("{}").ok());
}

class FollowerTest : public ::testing::Test {
 protected:
  std::unique_ptr<Follower> Make() {
    FollowerOptions options{.record = run_.folder() + "/metrics.jsonl", .folder = run_.folder() + "/loggers"};
    std::vector<std::unique_ptr<Logger>> list;
    list.push_back(std::make_unique<Otlp>(OtlpOptions{"http://s", ""}, "r", server_.Post()));
    return std::make_unique<Follower>(options, std::move(list), &run_.pool());
  }
  void Write(int64_t step) {
    std::ofstream(run_.folder() + "/metrics.jsonl", std::ios::app)
        << "{\"step\": " << step << ", \"time\": " << 50 + step << ", \"perf/step_seconds\": 1}\n";
  }
  int Spans(const std::string& name) const {
    int count = 0;
    for (const Asked& one : server_.asked) {
      for (size_t at = 0; (at = one.body.find("\"name\":\"" + name + "\"", at)) != std::string::npos; ++at) ++count;
    }
    return count;
  }

  view::testing::SmallRun run_;
  FakeServer server_;
};

TEST_F(FollowerTest, SendsEverythingOnceAlsoAcrossStarts) {
  Write(0);
  {
    const auto follower = Make();
    follower->Poll();
    follower->Poll();
    EXPECT_EQ(Spans("step"), 1);
    EXPECT_EQ(Spans("episode"), 4);  // groups 0 and 1 have ended; 2 and 3 have not
  }
  Write(1);
  ASSERT_TRUE(run_.pool().AppendJournal(datapool::testing::BatchRecord(1, {2})).ok());
  Make()->Poll();
  EXPECT_EQ(Spans("step"), 2);
  EXPECT_EQ(Spans("episode"), 6);
}

TEST_F(FollowerTest, TheEpisodesOfAnEvaluationComeWithItsRow) {
  const int64_t group = int64_t{5} << 20;  // of version 5
  for (const int sample : {0, 1}) {
    const std::string id = absl::StrCat("e", sample);
    ASSERT_TRUE(run_.pool().StoreEpisode(datapool::testing::Open(id, group + 3, sample, 0, v1::PURPOSE_EVAL)).ok());
    ASSERT_TRUE(run_.pool().StoreEnd(datapool::testing::End(id, v1::EPISODE_FINISHED, sample)).ok());
  }
  const auto follower = Make();
  follower->Poll();
  EXPECT_EQ(Spans("episode"), 4);
  std::ofstream(run_.folder() + "/metrics.jsonl")
      << R"({"step": 7, "time": 60, "eval/version": 5, "eval/reward_mean": 0.5})" << "\n";
  server_.down = true;
  follower->Poll();
  server_.down = false;
  follower->Poll();
  follower->Poll();
  EXPECT_EQ(Spans("episode"), 6);
  EXPECT_THAT(server_.asked.back().body, HasSubstr(R"("key":"ingot.purpose","value":{"stringValue":"eval"})"));
}

TEST_F(FollowerTest, AServerThatIsDownGetsLaterWhatItMissed) {
  Write(0);
  const auto follower = Make();
  server_.down = true;
  follower->Poll();
  Write(1);
  follower->Poll();
  EXPECT_TRUE(server_.asked.empty());
  server_.down = false;
  follower->End(true);
  EXPECT_EQ(Spans("step"), 2);
  EXPECT_EQ(Spans("episode"), 4);
}

}  // namespace
}  // namespace ingot::loggers
