// Reports and comparisons of runs as one file each.
#include "view/evaluation/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "view/evaluation/svg_chart.h"
#include "view/make_run.h"

namespace ingot::view::report_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(EstimateOf, OfOutcomesHasWilsonsInterval) {
  EXPECT_EQ(EstimateOf(std::vector<double>{}).values, 0);
  const Estimate one = EstimateOf(std::vector<double>{1});
  EXPECT_EQ(one.low, one.high);
  // Of 16 of 16 and of 15 of 16, computed from the formula in Python.
  std::vector<double> outcomes(16, 1);
  const Estimate all = EstimateOf(outcomes);
  EXPECT_NEAR(all.low, 0.806392, 1e-6);
  EXPECT_EQ(all.high, 1);
  outcomes[3] = 0;
  const Estimate most = EstimateOf(outcomes);
  EXPECT_EQ(most.mean, 0.9375);
  EXPECT_NEAR(most.low, 0.716713, 1e-6);
  EXPECT_NEAR(most.high, 0.988881, 1e-6);
}

TEST(EstimateOf, OfOtherValuesStaysWithinThem) {
  std::vector<double> values;
  for (int i = 0; i < 40; ++i) values.push_back(i % 8 == 0 ? 0.5 : 1);
  const Estimate estimate = EstimateOf(values);
  EXPECT_NEAR(estimate.mean, 0.9375, 1e-12);
  // The standard error is 0.0262; the bootstrap of 40 values comes near the normal distribution's 0.886 to 0.989.
  EXPECT_NEAR(estimate.low, 0.886, 0.02);
  EXPECT_NEAR(estimate.high, 0.989, 0.02);
  EXPECT_LE(estimate.high, 1);
  EXPECT_EQ(EstimateOf(values).low, estimate.low);
}

TEST(EvaluatedTasks, CountsTheNewestAttemptAndAFailedEpisodeAsZero) {
  testing::pools::TempDir dir;
  const auto pool = datapool::OpenPool(testing::pools::QuickOptions(dir.path())).value();
  const int64_t group = 3 * (int64_t{1} << 20);
  const auto add = [&](const std::string& id, int64_t of, int sample, v1::EpisodeState state, double reward,
                       int attempt = 0) {
    ASSERT_TRUE(pool->StoreEpisode(testing::pools::Open(id, of, sample, attempt, v1::PURPOSE_EVAL)).ok());
    ASSERT_TRUE(pool->StoreEnd(testing::pools::End(id, state, reward)).ok());
  };
  add("a", group, 0, v1::EPISODE_FINISHED, 1);
  add("b", group, 1, v1::EPISODE_FAILED, 0);
  add("c", group + 1, 0, v1::EPISODE_FAILED, 0);
  add("d", group + 1, 0, v1::EPISODE_FINISHED, 0.5, 1);
  for (const char* set : {"one", "two"}) {  // two sets may have tasks of one id
    v1::StoreEpisodeRequest open =
        testing::pools::Open(set, 5 * (int64_t{1} << 20) + (set[0] == 'o' ? 0 : 1), 0, 0, v1::PURPOSE_EVAL);
    open.mutable_episode()->mutable_task()->set_task_id("same");
    open.mutable_episode()->mutable_task()->set_eval_set(set);
    ASSERT_TRUE(pool->StoreEpisode(open).ok());
    ASSERT_TRUE(pool->StoreEnd(testing::pools::End(set, v1::EPISODE_FINISHED, set[0] == 'o' ? 1 : 0)).ok());
  }
  EXPECT_EQ(EvaluatedTasks(*pool, 5).value(), (TaskRewards{{"one/same", 1}, {"two/same", 0}}));
  const TaskRewards tasks = EvaluatedTasks(*pool, 3).value();
  EXPECT_EQ(tasks, (TaskRewards{{"task-" + std::to_string(group), 0.5}, {"task-" + std::to_string(group + 1), 0.5}}));
  EXPECT_TRUE(EvaluatedTasks(*pool, 2).value().empty());
}

TEST(SvgChart, EscapesItsWordsAndLeavesOutWhatIsNotFinite) {
  const std::string svg = SvgChart("<b>", {{"\"><script>", {0, 1, 2}, {1, NAN, 3}}});
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
  EXPECT_THAT(svg, Not(HasSubstr("<b>")));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, HasSubstr("M52.0 188.0L512.0 8.0"));
  for (const char* number : {">1</text>", ">2</text>", ">3</text>", ">0</text>"}) EXPECT_THAT(svg, HasSubstr(number));
  EXPECT_THAT(SvgChart("none", {{"a", {}, {}}}), HasSubstr("no values"));
}

class ReportTest : public ::testing::Test {
 protected:
  ReportTest() {
    std::ofstream file(run_.folder() + "/metrics.jsonl");
    for (int step = 0; step < 12; ++step) {
      file << "{\"step\": " << step << ", \"time\": " << 100 + 2 * step << ", \"reward/mean\": " << 0.1 * step
           << ", \"perf/step_seconds\": 2, \"perf/wait_seconds\": 1, \"perf/train_seconds\": 1, \"batch/loss_tokens\": "
              "1000, "
              "\"perf/tokens_per_second\": 500, \"reward/term/<i>\": 1}\n";
    }
    file << "{\"step\": 6, \"eval/reward_mean\": 0.5}\n";  // of a program that wrote no pass@k
    file << "{\"step\": 12, \"eval/reward_mean\": 0.75, \"eval/graded_mean\": 0.5, \"eval/version\": 12"
            ", \"eval/pass@1\": 0.125, \"eval/pass@16\": 0.875, \"eval/pass@2\": 0.25, \"eval/pass@1@domain:d\": 0.375";
    for (int term = 0; term < 9; ++term) file << ", \"eval/term/t" << term << "\": " << term;
    file << "}\n";
    file.close();
    EXPECT_TRUE(rows_.Refresh().ok());
    EXPECT_TRUE(journal_.Refresh(run_.pool()).ok());
  }

  testing::SmallRun run_;
  Rows rows_{run_.folder() + "/metrics.jsonl"};
  Journal journal_;
};

TEST_F(ReportTest, IsOneFileWithoutAScriptOrAnythingFromElsewhere) {
  const std::shared_ptr<const text::Tokenizer> tokenizer = run_.Source().tokenizer;
  const ReportInput input{"a<b>", "key: <value>", &rows_, &journal_, &run_.pool(), tokenizer.get()};
  const std::string html = ReportHtml(input).value();
  for (const char* never : {"<script", "http://", "https://", "<link", "src=", "a<b>", "<i>", "<value>"}) {
    EXPECT_THAT(html, Not(HasSubstr(never)));
  }
  EXPECT_THAT(html, HasSubstr("a&lt;b&gt;"));
  EXPECT_THAT(html, HasSubstr("measured parts account for 100.00% of it"));
  EXPECT_THAT(html, HasSubstr("group 0, sample 1: reward 1"));
  EXPECT_THAT(html, HasSubstr("0.75"));
  EXPECT_THAT(html, HasSubstr("key: &lt;value&gt;"));
  for (const char* chart :
       {"Reward by term, before weights<", "Evaluation by reward term, before weights, 1 to 8 of 9<",
        "Evaluation by reward term, before weights, 9 to 9 of 9<", ">t8<", "eval/graded_mean",
        "Evaluation, pass@k by k<"}) {
    EXPECT_THAT(html, HasSubstr(chart));
  }
}

TEST_F(ReportTest, OfARunWithoutAPoolHasWhatItsRecordsHave) {
  const std::string record = run_.folder() + "/supervised.jsonl";
  std::ofstream(record) << "{\"step\": 0, \"time\": 5, \"sft/loss\": 4.5, \"sft/nll\": 4.25, \"sft/grad_norm\": 1, "
                           "\"sft/tokens_per_second\": 70}\n"
                           "{\"step\": 1, \"time\": 6, \"dpo/loss\": 0.25, \"dpo/accuracy\": 0.75, "
                           "\"dpo/tokens_per_second\": 80}\n";
  Rows supervised(record), none(run_.folder() + "/none.jsonl");
  ASSERT_TRUE(supervised.Refresh().ok() && none.Refresh().ok());
  ReportInput input{
      .name = "sup", .config = "", .rows = &supervised, .journal = &journal_, .no_pool = "it has <no> agents"};
  const std::string html = ReportHtml(input).value();
  for (const char* part :
       {"Supervised loss<", "Supervised gradient norm<", "Supervised tokens per second<", "Preference accuracy<",
        "supervised steps</th><td class=\"n\">2<", ">0.75<", "None: it has &lt;no&gt; agents."}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
  EXPECT_THAT(html, Not(HasSubstr("groups trained")));
  input.rows = &none;
  input.warm_start = &supervised;
  EXPECT_THAT(ReportHtml(input).value(), HasSubstr("warm-start steps</th><td class=\"n\">2<"));
  EXPECT_THAT(ReportHtml(input).value(), HasSubstr("Supervised loss<"));
  input.warm_start = nullptr;
  EXPECT_THAT(ReportHtml(input).value(), HasSubstr("The record has no steps."));

  const ComparedRun run{.name = "sup", .rows = &supervised};
  const std::string line =
      "sup: 2 supervised steps, preference loss 0.25, preference accuracy 0.75, tokens per second 80\n";
  EXPECT_TRUE(CompareText({run, run}).ends_with(line + line));
  EXPECT_THAT(CompareHtml({run, run}), HasSubstr("Supervised loss: sft/nll"));
}

TEST_F(ReportTest, ShowsPassAtKOfEvaluationsThatHaveIt) {
  EXPECT_EQ(EvaluatedPasses(rows_),
            (std::map<int64_t, std::map<int64_t, double>>{{12, {{1, 0.125}, {2, 0.25}, {16, 0.875}}}}));
  const std::shared_ptr<const text::Tokenizer> tokenizer = run_.Source().tokenizer;
  const ReportInput input{"run", "", &rows_, &journal_, &run_.pool(), tokenizer.get()};
  const std::string html = ReportHtml(input).value();
  EXPECT_THAT(html, HasSubstr("<th>pass@1</th><th>pass@2</th><th>pass@16</th></tr>"));
  EXPECT_THAT(html, HasSubstr("<td class=\"n\">0.125</td><td class=\"n\">0.25</td><td class=\"n\">0.875</td></tr>"));
  EXPECT_THAT(html, HasSubstr("<td class=\"n\">–</td><td class=\"n\">–</td><td class=\"n\">–</td></tr>"));
  const ComparedRun run{.name = "run", .rows = &rows_, .evaluated_version = 12, .evaluated_mean = 0.75};
  EXPECT_THAT(CompareText({run}), HasSubstr("\nrun: version 12, pass@1 0.125, pass@2 0.25, pass@16 0.875\n"));
}

TEST_F(ReportTest, AComparisonHasIntervalsAndThePairedDifference) {
  ComparedRun first{.name = "first", .rows = &rows_, .evaluated_version = 12, .evaluated_mean = 0.75};
  ComparedRun other = first;
  first.tasks = {{"a", 0.2}, {"b", 0.4}};
  other.name = "other";
  other.tasks = {{"a", 0.4}, {"b", 0.6}};
  const std::string text = CompareText({first, other});
  EXPECT_THAT(text, HasSubstr("0.65 ("));  // the mean of 0.2 to 1.1 over the last ten steps
  EXPECT_THAT(text, HasSubstr("0.2 (0.2 to 0.2), 2 tasks"));
  EXPECT_THAT(text, Not(HasSubstr("keys differ")));
  other.differences = {{"rewards.terms", "[]", "[{kind: length}]"}, {"scheduler.group_size", "4", "8"}};
  const std::string differing = CompareText({first, other});
  EXPECT_THAT(differing, HasSubstr("other: 2 keys differ from first\n"));
  EXPECT_THAT(differing, HasSubstr("  scheduler.group_size: 8, in first 4\n"));
  EXPECT_THAT(differing, HasSubstr("rewards of other and first have different terms"));
  EXPECT_THAT(CompareHtml({first, other}), HasSubstr("Reward: reward/mean"));
}

}  // namespace
}  // namespace ingot::view::report_test
