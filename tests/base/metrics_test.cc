#include "base/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/hostile_text.h"
#include "base/printable.h"

namespace ingot::base {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(MetricsTest, RendersEveryKindInPrometheusText) {
  Metrics metrics;
  metrics.GetCounter("ingot_calls_total", "Calls", {{"route", "/v1/models"}}).Increment(3);
  metrics.GetGauge("ingot_open", "Open").Set(2.5);
  metrics.GetHistogram("ingot_wait_seconds", "Waits", {}, {0.1, 1}).Observe(0.5);
  const std::string text = metrics.RenderText();
  EXPECT_THAT(text, HasSubstr("# TYPE ingot_calls_total counter\ningot_calls_total{route=\"/v1/models\"} 3"));
  EXPECT_THAT(text, HasSubstr("ingot_open 2.5"));
  EXPECT_THAT(text, HasSubstr("ingot_wait_seconds_bucket{le=\"0.1\"} 0"));
  EXPECT_THAT(text, HasSubstr("ingot_wait_seconds_bucket{le=\"1\"} 1"));
}

TEST(MetricsTest, TheSameNameAndLabelsAreTheSameSeries) {
  Metrics metrics;
  Counter& first = metrics.GetCounter("a", "", {{"x", "1"}});
  EXPECT_EQ(&first, &metrics.GetCounter("a", "", {{"x", "1"}}));
  EXPECT_NE(&first, &metrics.GetCounter("a", "", {{"x", "2"}}));
}

TEST(MetricsTest, ForbiddenCharactersInNamesBecomeUnderscores) {
  EXPECT_EQ(MetricName("reward/mean"), "reward_mean");
  EXPECT_EQ(MetricName("2nd try"), "_2nd_try");
  EXPECT_EQ(MetricName(""), "_");
  Metrics metrics;
  metrics.GetGauge("a b/c", "", {{"__x:y", "v"}}).Set(1);
  EXPECT_THAT(metrics.RenderText(), HasSubstr("a_b_c{label__x_y=\"v\"} 1"));
}

TEST(MetricsTest, ANameOfAnotherKindGetsASuffix) {
  Metrics metrics;
  metrics.GetCounter("n", "").Increment();
  metrics.GetGauge("n", "").Set(7);
  EXPECT_THAT(metrics.RenderText(), HasSubstr("n_conflict 7"));
}

TEST(MetricsTest, ValuesOfALabelBeyondTheLimitAreOtherAndCounted) {
  Metrics metrics(2);
  for (int i = 0; i < 5; ++i) metrics.GetCounter("n", "", {{"who", std::to_string(i)}, {"state", "done"}}).Increment();
  metrics.GetCounter("n", "", {{"who", "1"}, {"state", "failed"}}).Increment();  // known values stay
  metrics.GetCounter("n", "", {{"who", "other"}, {"state", "done"}}).Increment(10);
  metrics.GetCounter("m", "", {{"who", "4"}}).Increment();  // another family
  const std::string text = metrics.RenderText();
  EXPECT_THAT(text, HasSubstr("n{state=\"done\",who=\"1\"} 1"));
  EXPECT_THAT(text, HasSubstr("n{state=\"failed\",who=\"1\"} 1"));
  EXPECT_THAT(text, HasSubstr("n{state=\"done\",who=\"other\"} 13"));
  EXPECT_THAT(text, Not(HasSubstr("who=\"2\"")));
  EXPECT_THAT(text, HasSubstr("m{who=\"4\"} 1"));
  EXPECT_THAT(text, HasSubstr("ingot_metrics_labels_other_total{label=\"who\",metric=\"n\"} 3\n"));
}

TEST(MetricsTest, TwoLabelsFromOutsideAreBoundedTogether) {
  Metrics metrics(20);
  for (int i = 0; i < 20; ++i) {
    for (int k = 0; k < 20; ++k) {
      metrics.GetGauge("n", "", {{"a", std::to_string(i)}, {"b", std::to_string(k)}}).Set(1);
    }
  }
  const std::string text = metrics.RenderText();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'),
            1 + 201 + 2 + 2);  // two families with their heads; one has no help
  EXPECT_THAT(text, HasSubstr("n{a=\"other\",b=\"other\"} 1"));
  EXPECT_THAT(text, HasSubstr("ingot_metrics_labels_other_total{label=\"b\",metric=\"n\"} 200\n"));
}

// Each line of the text as Prometheus reads it: # HELP, # TYPE, or NAME{LABEL="VALUE",...} NUMBER.
void ExpectWellFormed(const std::string& text) {
  const std::regex line(
      "# HELP [a-zA-Z_:][a-zA-Z0-9_:]* ([^\\\\]|\\\\\\\\|\\\\n)*|# TYPE [a-zA-Z_:][a-zA-Z0-9_:]* "
      "(counter|gauge|histogram)|"
      "[a-zA-Z_:][a-zA-Z0-9_:]*(\\{[a-zA-Z_][a-zA-Z0-9_]*=\"([^\"\\\\]|\\\\[\\\\n\"])*\"(,[a-zA-Z_][a-zA-Z0-9_]*=\"([^"
      "\"\\\\]|"
      "\\\\[\\\\n\"])*\")*\\})? [-+.eE0-9a-zA-Z]+");
  std::istringstream lines(text);
  std::set<std::string> series;
  for (std::string one; std::getline(lines, one);) {
    EXPECT_TRUE(std::regex_match(one, line)) << one;
    EXPECT_TRUE(IsPrintable(one)) << one;
    if (one[0] == '#') continue;
    EXPECT_TRUE(series.insert(one.substr(0, one.rfind(' '))).second) << "twice: " << one;
  }
}

TEST(MetricsTest, HostileTextBreaksNoScrape) {
  Metrics metrics;
  for (const std::string& text : HostileTexts()) {
    metrics.GetGauge("by_label", "By label.", {{"who", text}}).Set(1);
    metrics.GetCounter(text.substr(0, 100), text).Increment();
  }
  ExpectWellFormed(metrics.RenderText());
  EXPECT_THAT(metrics.RenderText(), HasSubstr("by_label{who=\"bad\\\\nname\"} 1\n"));
  EXPECT_LT(metrics.RenderText().size(), 100'000u);
}

TEST(MetricsTest, ThreadsShareSeries) {
  Metrics metrics;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        metrics.GetCounter("n", "").Increment();
        if (i % 100 == 0) metrics.RenderText();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(metrics.GetCounter("n", "").Value(), 2000);
}

}  // namespace
}  // namespace ingot::base
